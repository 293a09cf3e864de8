"""Who we are to the API server: a token, a token file, a name and password, or a credential plugin.

Owns the Authorization header and when it is made anew. Plugins (exec, OIDC, ...) are run by the official client
library, which is loaded only for those who need it.
"""

import base64
import ssl
from pathlib import Path
from typing import Any, Final, Protocol

from elastipod.kube.errors import Unreachable

REREAD_SECONDS: Final = 60.0
"""A token file is read again after this long: a service account's token is replaced before it expires."""

_MOST_TOKEN_BYTES: Final = 65_536


class Credential(Protocol):
    """Gives the Authorization header, empty for none. Raises Unreachable where it can not."""

    async def authorization(self, now: float, /) -> str:
        """The header at this monotonic time."""
        ...

    def refused(self) -> None:
        """The server said 401: make the header anew at the next call."""
        ...


class FixedCredential:
    """A header that does not change: a token, a name and password, or nothing (client certificates)."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    async def authorization(self, _now: float, /) -> str:
        return self._header

    def refused(self) -> None:
        pass


class TokenFile:
    """A token that something else keeps fresh in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = ""
        self._read_at: float | None = None

    async def authorization(self, now: float, /) -> str:
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            self._header = f"Bearer {self._token()}"
            self._read_at = now
        return self._header

    def refused(self) -> None:
        self._read_at = None

    def _token(self) -> str:
        try:
            with self._path.open("rb") as file:
                token = file.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unreachable(f"the token file {self._path} can not be read: {error}") from None
        if not is_token(token):
            raise Unreachable(f"the token file {self._path} holds no token")
        return token


class PluginCredential:
    """What a credential plugin of the kubeconfig says, by the official client library."""

    def __init__(self, config: dict[str, Any], context: str, folder: Path, tls: ssl.SSLContext | None) -> None:
        self._config, self._context, self._folder, self._tls = config, context, folder, tls
        self._loader: Any = None

    async def authorization(self, _now: float, /) -> str:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config.kube_config import KubeConfigLoader

        configuration = Configuration()
        try:
            if self._loader is None:
                loader_of: Any = KubeConfigLoader
                self._loader = loader_of(self._config, active_context=self._context, config_base_path=str(self._folder))
            # The loader keeps what its plugin said until shortly before that expires.
            await self._loader.load_and_set(configuration)
            header = str(configuration.api_key.get("BearerToken", ""))
            if configuration.cert_file and self._tls is not None:
                self._tls.load_cert_chain(configuration.cert_file, configuration.key_file)
        except Exception as error:
            self._loader = None
            raise Unreachable(f"the credential plugin of context {self._context!r} failed: {error}") from error
        if not header and not configuration.cert_file:
            raise Unreachable(f"the credential plugin of context {self._context!r} gave no credential")
        return header

    def refused(self) -> None:
        self._loader = None


def basic(name: str, password: str) -> str:
    """The header for a name and password."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode('ascii')}"


def is_token(text: str) -> bool:
    """Whether a text may stand in a header: printable ASCII without blanks."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
