"""Certificates and keys of one cluster, made by openssl in a moment and good for a week."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_CONFIG: Final = "[req]\ndistinguished_name = name\nprompt = no\n[name]\n"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


def why_no_certificates() -> str:
    """Nothing where certificates can be made, else what is in the way."""
    return "" if shutil.which("openssl") else "openssl is not installed"


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (folder / "openssl.cnf").write_text(_CONFIG)
        self.pair = self._made("ca", "/CN=elastipod tests", ["basicConstraints=critical,CA:TRUE"], signed=False)

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def issue(self, name: str, subject: str, alternatives: Sequence[str] = ()) -> Pair:
        """A certificate for servers and clients; alternatives as `IP:127.0.0.1` or `DNS:localhost`."""
        extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth"]
        if alternatives:
            extensions.append(f"subjectAltName={','.join(alternatives)}")
        return self._made(name, subject, extensions, signed=True)

    def signing_key(self, name: str) -> Path:
        """A private key alone, in the form that the API server reads."""
        key = self._folder / f"{name}.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
        return key

    def _made(self, name: str, subject: str, extensions: list[str], *, signed: bool) -> Pair:
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        argv = ["req", "-x509", *_CURVE, "-config", str(self._folder / "openssl.cnf"), "-days", "7", "-subj", subject]
        argv += ["-out", str(pair.certificate), "-keyout", str(pair.key)]
        for extension in extensions:
            argv += ["-addext", extension]
        if signed:
            argv += ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        _openssl(*argv)
        return pair


def _openssl(*argv: str) -> None:
    subprocess.run(["openssl", *argv], check=True, capture_output=True)
