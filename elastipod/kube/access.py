"""The way to a cluster: a kubeconfig as kubectl reads it, or the service account of the pod we run in.

Owns finding and reading the configuration. What can not be used is refused by the name of its field; nothing unsafe is
done that the configuration does not ask for.
"""

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from elastipod.kube.credentials import Credential, FixedCredential, PluginCredential, TokenFile, basic, is_token

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST_BYTES: Final = 4_194_304
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SECTIONS: Final = ("clusters", "contexts", "users")


class AccessError(Exception):
    """There is no way to a cluster, or the configuration can not be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is, and as whom and how we speak to it."""

    server: str
    namespace: str = ""
    """The context's own namespace; empty where it names none."""
    tls: ssl.SSLContext | None = None
    credential: Credential = field(default_factory=FixedCredential)
    server_name: str = ""
    """The name its certificate must carry, where it is not the host's."""
    proxy: str = ""


def load_access(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> Access:
    """The way to the cluster that is meant: the file named, KUBECONFIG, ~/.kube/config, or the pod's service account.

    Raises AccessError.
    """
    if kubeconfig:
        return _from_files([Path(kubeconfig)], context, must_exist=True)
    if environ.get("KUBECONFIG"):
        return _from_files([Path(one) for one in environ["KUBECONFIG"].split(":") if one], context)
    own = Path(environ.get("HOME", "/nonexistent"), ".kube", "config")
    if own.is_file():
        return _from_files([own], context)
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if host and port and context is None:
        return _in_cluster(host, port, service_account)
    raise AccessError(f"no cluster is configured: give --kubeconfig, set KUBECONFIG, or write {own}")


def _in_cluster(host: str, port: str, folder: Path) -> Access:
    shown = f"[{host}]" if ":" in host else host
    certificates = folder / "ca.crt"
    try:
        tls = ssl.create_default_context(cafile=str(certificates))
        namespace = (folder / "namespace").read_text("utf-8").strip() if (folder / "namespace").is_file() else ""
    except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
        raise AccessError(f"the service account in {folder} can not be used: {error}") from None
    return Access(
        _server(f"https://{shown}:{port}", "KUBERNETES_SERVICE_HOST"), namespace, tls, TokenFile(folder / "token")
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named part of a kubeconfig: its fields, and the folder its relative paths start from."""

    where: str
    fields: dict[str, Any]
    folder: Path

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or "\0" in value:
            raise AccessError(f"{self.where}.{name} must be a text")
        return value

    def flag(self, name: str) -> bool:
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise AccessError(f"{self.where}.{name} must be true or false, not {value!r}")
        return value

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return self.folder / text if text else None

    def data(self, name: str) -> bytes:
        """Base64 data of a field, or the content of the file that its neighbour names; data wins, as in kubectl."""
        text = self.text(f"{name}-data")
        if text:
            try:
                return base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError):
                raise AccessError(f"{self.where}.{name}-data is not base64") from None
        path = self.path(name)
        if path is None:
            return b""
        try:
            return path.read_bytes()
        except OSError as error:
            raise AccessError(f"{self.where}.{name}: {error}") from None


def _from_files(paths: list[Path], context: str | None, *, must_exist: bool = False) -> Access:
    found: dict[str, dict[str, _Entry]] = {section: {} for section in _SECTIONS}
    current = ""
    merged: dict[str, Any] = {}
    for path in paths:
        if not must_exist and not path.exists():
            continue
        content = _read(path)
        current = current or _current_context(path, content)
        for section in _SECTIONS:
            for name, entry in _entries(path, section, content).items():
                found[section].setdefault(name, entry)
                merged.setdefault(section, []).append({"name": name, section[:-1]: entry.fields})
    name = context or current
    if not name:
        raise AccessError(f"{_shown(paths)} has no current-context: give --context")
    chosen = _chosen(found, "contexts", name, "context", paths)
    cluster = _chosen(found, "clusters", chosen.text("cluster"), f"{chosen.where}.cluster", paths)
    user_name = chosen.text("user")
    user = _chosen(found, "users", user_name, f"{chosen.where}.user", paths) if user_name else None
    server = _server(cluster.text("server"), f"{cluster.where}.server")
    tls = _tls(cluster, user) if server.startswith("https:") else None
    credential = FixedCredential() if user is None else _credential(user, merged, name, tls)
    if tls is None and user is not None and _speaks_secrets(user) and urlsplit(server).hostname not in _LOOPBACK:
        raise AccessError(f"{cluster.where}.server is not https, and {user.where} would send a secret in the open")
    proxy = cluster.text("proxy-url")
    if proxy:
        _parts(proxy, f"{cluster.where}.proxy-url")
    return Access(server, chosen.text("namespace"), tls, credential, cluster.text("tls-server-name"), proxy)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise AccessError(f"the kubeconfig {path} can not be read: {error.strerror}") from None
    if len(raw) > _MOST_BYTES:
        raise AccessError(f"the kubeconfig {path} is larger than {_MOST_BYTES} bytes")
    # In a cluster no kubeconfig is read, and the parser's memory is saved.
    import yaml

    try:
        content = yaml.safe_load(raw) or {}
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise AccessError(f"the kubeconfig {path} is not YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(content, dict):
        raise AccessError(f"the kubeconfig {path} must be a mapping, not a {type(content).__name__}")
    return content


def _current_context(path: Path, content: dict[str, Any]) -> str:
    current = content.get("current-context") or ""
    if not isinstance(current, str):
        raise AccessError(f"{path}: current-context must be a text")
    return current


def _entries(path: Path, section: str, content: dict[str, Any]) -> dict[str, _Entry]:
    """The entries of one section; the first of a name wins."""
    listed = content.get(section) or []
    if not isinstance(listed, list):
        raise AccessError(f"{path}: {section} must be a list")
    found: dict[str, _Entry] = {}
    for index, one in enumerate(listed):
        name = one.get("name") if isinstance(one, dict) else None
        fields = (one.get(section[:-1]) or {}) if isinstance(one, dict) else None
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise AccessError(f"{path}: {section}[{index}] must have a name and a {section[:-1]}")
        found.setdefault(name, _Entry(f"{path}: {section[:-1]} {name!r}", fields, path.absolute().parent))
    return found


def _chosen(found: dict[str, dict[str, _Entry]], section: str, name: str, where: str, paths: list[Path]) -> _Entry:
    entry = found[section].get(name)
    if entry is None:
        known = ", ".join(sorted(found[section])[:20]) or "none"
        raise AccessError(f"{where}: {_shown(paths)} has no {section[:-1]} {name!r}; there is: {known}")
    return entry


def _shown(paths: list[Path]) -> str:
    return ":".join(str(path) for path in paths)


def _parts(text: str, where: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        is_good = _is_host(parts.hostname or "") and parts.scheme in ("http", "https") and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or not text.isprintable() or " " in text:
        shown = text.rpartition("@")[2]
        raise AccessError(f"{where} must be an http or https URL, not {shown[:100]!r}")
    return parts


def _server(text: str, where: str) -> str:
    parts = _parts(text, where)
    if parts.username is not None or parts.query or parts.fragment:
        raise AccessError(f"{where} must not carry a user, a query or a fragment")
    return text.rstrip("/")


def _is_host(text: str) -> bool:
    """Whether it can be looked up: an IPv6 address, or labels of 1 to 63 characters (RFC 1035)."""
    return text.isascii() and (":" in text or all(0 < len(label) < 64 for label in text.removesuffix(".").split(".")))


def _tls(cluster: _Entry, user: _Entry | None) -> ssl.SSLContext:
    insecure = cluster.flag("insecure-skip-tls-verify")
    authority = cluster.data("certificate-authority")
    if insecure and authority:
        raise AccessError(f"{cluster.where}: insecure-skip-tls-verify contradicts certificate-authority")
    try:
        tls = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(f"{cluster.where}.certificate-authority is no PEM certificate: {error}") from None
    if insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if user is not None:
        _add_certificate(tls, user)
    return tls


def _add_certificate(tls: ssl.SSLContext, user: _Entry) -> None:
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if not certificate and not key:
        return
    if not certificate or not key:
        raise AccessError(f"{user.where} needs both client-certificate and client-key")
    # OpenSSL takes a chain only from a file; an anonymous one in memory leaves no key on disk.
    import os

    handle = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(handle, certificate.rstrip() + b"\n" + key)
        tls.load_cert_chain(f"/proc/self/fd/{handle}", password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise AccessError(f"{user.where}: client-certificate and client-key can not be used: {error}") from None
    finally:
        os.close(handle)


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _speaks_secrets(user: _Entry) -> bool:
    return any(name in user.fields for name in ("token", "tokenFile", "password", "exec", "auth-provider"))


def _credential(user: _Entry, merged: dict[str, Any], context: str, tls: ssl.SSLContext | None) -> Credential:
    """Kubectl's order: plugin, token file, token, name and password."""
    for name in ("exec", "auth-provider"):
        if name in user.fields:
            if not isinstance(user.fields[name], dict):
                raise AccessError(f"{user.where}.{name} must be a mapping")
            return PluginCredential(merged, context, user.folder, tls)
    path = user.path("tokenFile")
    if path is not None:
        return TokenFile(path)
    token = user.text("token")
    if token:
        if not is_token(token):
            raise AccessError(f"{user.where}.token must be printable text without blanks")
        return FixedCredential(f"Bearer {token}")
    name, password = user.text("username"), user.text("password")
    return FixedCredential(basic(name, password)) if name and password else FixedCredential()
