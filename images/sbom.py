"""What an image is made of, as a CycloneDX document.

Owns the document's form. The same parts give the same bytes: it tells no time and its serial number is of its content.
"""

import json
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from images.debian import Package
from images.wheels import Wheel


def sbom(image: str, version: str, packages: Iterable[Package], wheels: Iterable[Wheel]) -> bytes:
    """CycloneDX 1.6: the image, its Debian packages and its Python packages, each by its file's hash."""
    name = f"elastipod/{image}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": name, "name": name, "version": version},
        },
        "components": [*map(_debian, packages), *map(_python, wheels)],
    }
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True)).urn
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def _debian(package: Package) -> dict[str, Any]:
    purl = f"pkg:deb/debian/{quote(package.name)}@{quote(package.version)}?arch=amd64&distro=debian-12"
    return _component("library", package.name, package.version, purl, package.sha256)


def _python(wheel: Wheel) -> dict[str, Any]:
    kind = "application" if wheel.name == "elastipod" else "library"
    component = _component(kind, wheel.name, wheel.version, f"pkg:pypi/{wheel.name}@{wheel.version}", wheel.sha256)
    return component | ({"licenses": [{"expression": wheel.license}]} if wheel.license else {})


def _component(kind: str, name: str, version: str, purl: str, sha256: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": sha256}],
    }
