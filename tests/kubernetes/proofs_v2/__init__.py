"""The actuator in a real cluster whose node has cgroup v2: what carries a spike, whatever is away meanwhile."""
