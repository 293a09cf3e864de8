"""The actuator: allocated resources in, cgroup writes out, memory spikes survived."""
