"""The Kubernetes API as elastipod uses it: one seam, bytes in and out, slim rows."""
