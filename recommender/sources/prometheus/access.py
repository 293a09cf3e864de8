"""How a Prometheus is reached: its address and what it is shown to let us in.

Owns the checks of what a person states, and the credentials of each request. A token is read from its file each time:
it is replaced while we run.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth


@dataclass(frozen=True, slots=True)
class PrometheusAccess:
    """Where a Prometheus is, and as whom it is asked. Raises ValueError that names the field."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    headers: tuple[str, ...] = field(default=(), repr=False)
    """`Name: value`, as for a tenant."""
    proxy: str = ""

    def __post_init__(self) -> None:
        for name, url in (("url", self.url), ("proxy", self.proxy)):
            if not url and name == "proxy":
                continue
            if not _is_address(url):
                # Before an @ stands what nobody else is to read.
                shown = url.rpartition("@")[2]
                raise ValueError(
                    f"{name}: {shown!r} is no address; it is written like http://prometheus.monitoring:9090"
                )
        if urlsplit(self.url).username is not None:
            raise ValueError("url: holds a user name, which would show in logs; state username and password apart")
        if urlsplit(self.url).query or urlsplit(self.url).fragment:
            raise ValueError(f"url: {self.url!r} ends in a question; only the address is wanted")
        ways = [bool(self.username), bool(self.token), bool(self.token_file)]
        if sum(ways) > 1:
            raise ValueError("username, token and token_file: only one of them can be shown")
        if self.password and not self.username:
            raise ValueError("password: needs a username")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file: needs a cert_file")
        for header in self.headers:
            name, colon, value = header.partition(":")
            if not colon or not name.strip() or not value.strip() or any(one in header for one in "\r\n"):
                raise ValueError("headers: each is written `Name: value`")
        for name in ("token_file", "ca_file", "cert_file", "key_file"):
            path = getattr(self, name)
            if path and not Path(path).is_file():
                raise ValueError(f"{name}: there is no file {path}")

    @property
    def address(self) -> str:
        """The URL that the API's paths follow on."""
        return self.url.rstrip("/")

    def prepare(self, session: requests.Session) -> None:
        """Make a session ask as this access says."""
        session.auth = _Credentials(self)
        session.headers.update(dict(_header(text) for text in self.headers))
        # Packing costs a Prometheus more than it spares on a cluster's own network, and hides how much there is.
        session.headers["Accept-Encoding"] = "identity"
        if self.ca_file:
            session.verify = self.ca_file
        if self.cert_file:
            session.cert = (self.cert_file, self.key_file) if self.key_file else self.cert_file
        if self.proxy:
            # What the environment says of proxies would go before.
            session.trust_env = False
            session.proxies = {"http": self.proxy, "https": self.proxy}


def _is_address(url: str) -> bool:
    try:
        where = urlsplit(url)
        return where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0
    except ValueError:
        return False


class _Credentials(AuthBase):
    """What each request shows. As it is always there, no .netrc is looked at."""

    def __init__(self, access: PrometheusAccess) -> None:
        self._access = access

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        access = self._access
        if access.username:
            return HTTPBasicAuth(access.username.encode(), access.password.encode())(request)
        token = access.token
        if access.token_file:
            token = Path(access.token_file).read_text("utf-8").strip()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()
