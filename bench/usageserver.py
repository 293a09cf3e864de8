"""metrics.k8s.io of a real API server, with usage that depends on the time that one says it is.

Owns the usage of random workloads (a level each, a day's wave, noise, and leaps of memory), the served API and its
registration. Time is led by setting `at`.
"""

import ssl
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from aiohttp import web

from elastipod.clock import to_rfc3339
from recommender.histogram import Floats
from tests.kubernetes.apiserver import ApiServer

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
_PATH: Final = f"/apis/{GROUP}/{VERSION}"
_DAY: Final = 86_400.0
_PAGE: Final = '{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['


class RandomUsage:
    """What containers use at an instant: cores and bytes, the same for the same seed and instant.

    A day's wave, noise and leaps; or, `steady`, a tenth more or less.
    """

    def __init__(self, containers: int, seed: int, *, steady: bool) -> None:
        self._seed, self._noise = seed, 0.05 if steady else 0.4
        random = np.random.default_rng(seed)
        self._cores = np.exp(random.uniform(np.log(0.005), np.log(4.0), containers))
        self._bytes = np.exp(random.uniform(np.log(15e6), np.log(8e9), containers))
        self._phase = random.uniform(0, _DAY, containers)
        self._wave = random.uniform(0, 0.0 if steady else 0.8, containers)
        self._leaps = random.uniform(0, 0.0 if steady else 0.05, containers)

    def at(self, instant: float) -> tuple[Floats, Floats]:
        """Cores and bytes of each container."""
        random = np.random.default_rng((self._seed, int(instant)))
        size = len(self._cores)
        day = 1 + self._wave * np.sin(2 * np.pi * (instant + self._phase) / _DAY)
        cores = self._cores * day * random.lognormal(0, self._noise, size)
        leaps = np.where(random.uniform(size=size) < self._leaps, random.uniform(1, 2, size), 1.0)
        return cores, self._bytes * day * random.lognormal(0, 0.05, size) * leaps


class UsageServer:
    """Serves the usage of these pods (namespace and name) with these containers each, at the instant `at`."""

    def __init__(
        self, pods: list[tuple[str, str]], containers: Sequence[str], seed: int, *, steady: bool = False
    ) -> None:
        self.at = 0.0
        self.asked: Counter[str] = Counter()
        """Lists so far, by the account that asked."""
        self._pods, self._containers = pods, containers
        self._usage = RandomUsage(len(pods) * len(containers), seed, steady=steady)
        self._runner: web.AppRunner | None = None

    async def start(self, server: ApiServer) -> None:
        """Serve, and have the API server lead there who asks for metrics."""
        app = web.Application()
        app.router.add_get(_PATH, _discovery)
        app.router.add_get(f"{_PATH}/pods", self._list)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        pair = server.control_plane.authority.issue("usage", "/CN=localhost", ["DNS:localhost", "IP:127.0.0.1"])
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(pair.certificate, pair.key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = self._runner.addresses[0][1]
        where = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        server.make_namespace("kube-system")
        server.calls.post(
            "/api/v1/namespaces/kube-system/services",
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "usage"}, "spec": where},
        )
        server.calls.post(
            "/apis/apiregistration.k8s.io/v1/apiservices",
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{VERSION}.{GROUP}"},
                "spec": {
                    "group": GROUP,
                    "version": VERSION,
                    "insecureSkipTLSVerify": True,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "service": {"namespace": "kube-system", "name": "usage", "port": port},
                },
            },
        )

    def told_at(self, instant: float) -> tuple[Floats, Floats]:
        """Cores and bytes of each container, pod by pod."""
        return self._usage.at(instant)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        self.asked[request.headers.get("X-Remote-User", "").rpartition(":")[2]] += 1
        cores, amounts = self.told_at(self.at)
        told = iter(zip(cores.tolist(), amounts.tolist(), strict=True))
        stamp = to_rfc3339(self.at)
        items = [
            f'{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"timestamp":"{stamp}","window":"30s",'
            f'"containers":[{",".join(_container(one, *next(told)) for one in self._containers)}]}}'
            for namespace, name in self._pods
        ]
        return web.Response(text=f"{_PAGE}{','.join(items)}]}}", content_type="application/json")


def _container(name: str, cores: float, amount: float) -> str:
    return f'{{"name":"{name}","usage":{{"cpu":"{int(cores * 1e9)}n","memory":"{int(amount / 1024)}Ki"}}}}'


async def _discovery(_: web.Request) -> web.Response:
    pods: dict[str, Any] = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics"}
    body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
    return web.json_response(body | {"resources": [pods | {"verbs": ["get", "list"]}]})
