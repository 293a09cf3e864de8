"""The bill of materials names every part by its hash."""

import json
import re
from dataclasses import replace

from images.debian import Package
from images.sbom import sbom
from images.wheels import Wheel

ZLIB = Package("zlib1g", "1:1.2.13.dfsg-1", "a" * 64)
H11 = Wheel("h11", "0.16.0", "MIT", "b" * 64)
OWN = Wheel("elastipod", "0.1.0", "", "c" * 64)


def test_each_part_has_its_package_address_and_its_hash() -> None:
    document = json.loads(sbom("elastipod-node", "0.1.0", [ZLIB], [H11, OWN]))
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    assert document["metadata"]["component"]["name"] == "elastipod/elastipod-node"
    assert [(part["type"], part["purl"], part["hashes"]) for part in document["components"]] == [
        (
            "library",
            "pkg:deb/debian/zlib1g@1%3A1.2.13.dfsg-1?arch=amd64&distro=debian-12",
            [{"alg": "SHA-256", "content": "a" * 64}],
        ),
        ("library", "pkg:pypi/h11@0.16.0", [{"alg": "SHA-256", "content": "b" * 64}]),
        ("application", "pkg:pypi/elastipod@0.1.0", [{"alg": "SHA-256", "content": "c" * 64}]),
    ]
    assert document["components"][1]["licenses"] == [{"expression": "MIT"}]
    assert "licenses" not in document["components"][2]


def test_the_serial_number_is_of_the_content() -> None:
    def serial(wheel: Wheel) -> str:
        return str(json.loads(sbom("elastipod", "0.1.0", [ZLIB], [wheel]))["serialNumber"])

    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", serial(H11))
    assert serial(H11) == serial(H11)
    assert serial(H11) != serial(replace(H11, sha256="d" * 64))
