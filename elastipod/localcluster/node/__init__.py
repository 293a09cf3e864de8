"""A node: a small faithful kubelet, and what runs in its pods."""
