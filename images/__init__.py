"""The container images, built from locked parts: no base image is pulled, no engine and no root is needed."""
