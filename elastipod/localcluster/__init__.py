"""A Kubernetes cluster in one process: API server, scheduler, controllers, node; in real or in simulated time."""
