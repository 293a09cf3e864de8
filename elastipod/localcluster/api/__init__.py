"""The embedded API server: what the API allows, and the ways to it."""
