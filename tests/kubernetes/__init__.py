"""A test ground on real Kubernetes, in levels; a run's last lines say which of them ran.

`api_server` (make test): etcd and the API server on loopback, by anyone; fakenodes.py tells it nodes.
`cluster` (make cluster): all of it with a kubelet and containerd, in namespaces of its own, as root.
`vm_cluster` (make vm): the same with its node on cgroup v2, in a virtual machine.

`make kubernetes` builds the programs; `python -m tests.kubernetes up` gives a person what the tests have.
"""
