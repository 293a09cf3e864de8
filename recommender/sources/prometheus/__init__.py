"""Usage from Prometheus: history at the start, and live samples where that is asked for."""
