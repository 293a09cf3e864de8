"""elastipod gives running Kubernetes pods the CPU and memory they need, in place."""

__version__ = "0.1.0"
