"""The `elastipod` command: the roof, the only place that knows all parts."""
