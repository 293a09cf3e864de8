"""Grafana dashboards and Prometheus rules, made from lists of panels and alerts."""
