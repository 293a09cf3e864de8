"""Controllers of the local cluster: from what a workload states to the pods it has."""
