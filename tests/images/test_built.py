"""What `make images` left in build/images keeps its promises."""

import json
import posixpath
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from images.recipes import IMAGES, NODE, ROOT, SBOM, SITE, Image

FOLDER = ROOT / "build/images"


@dataclass(frozen=True)
class Content:
    """An archive as it would be unpacked."""

    config: dict[str, Any]
    members: dict[str, tarfile.TarInfo]
    bill: bytes


def read(archive: Path) -> Content:
    members: dict[str, tarfile.TarInfo] = {}
    bill = b""
    with tarfile.open(archive) as tar:

        def part(name: str) -> Any:
            return tar.extractfile(name)

        (manifest,) = json.load(part("manifest.json"))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=part(name)) as layer:
                members |= {member.name: member for member in layer}
                if SBOM in layer.getnames() and (found := layer.extractfile(SBOM)):
                    bill = found.read()
        return Content(json.load(part(manifest["Config"]))["config"], members, bill)


@pytest.fixture(scope="module", params=IMAGES, ids=lambda image: image.name)
def image(request: pytest.FixtureRequest) -> Image:
    found: Image = request.param
    if not (FOLDER / f"{found.name}.tar").exists():
        pytest.skip("the images are not built: make images")
    return found


@pytest.fixture(scope="module")
def content(image: Image) -> Content:
    return read(FOLDER / f"{image.name}.tar")


def test_an_image_holds_no_shell_and_no_way_to_install_more(content: Content) -> None:
    programs = {posixpath.basename(name) for name in content.members if name.startswith("usr/bin/")}
    assert programs == {"python", "python3", "python3.11"}
    assert not {f"{SITE}/pip", f"{SITE}/setuptools", "usr/lib/python3.11/ensurepip"} & content.members.keys()


def test_nothing_in_an_image_gives_more_rights_than_its_user_has(content: Content) -> None:
    for name, member in content.members.items():
        assert (member.uid, member.gid) == (0, 0)
        assert member.mode & 0o6000 == 0, name
        assert member.issym() or member.mode & 0o002 == 0 or name == "tmp", name


def test_every_module_is_compiled(content: Content) -> None:
    modules = [name for name in content.members if name.endswith(".py")]
    assert len(modules) > 500
    for name in modules:
        folder, _, file = name.rpartition("/")
        assert f"{folder}/__pycache__/{file.removesuffix('.py')}.cpython-311.pyc" in content.members, name


def test_the_bill_of_materials_lies_in_the_image_where_its_label_says(content: Content, image: Image) -> None:
    assert content.config["Labels"]["io.elastipod.sbom"] == f"/{SBOM}"
    assert content.bill == (FOLDER / f"{image.name}.cdx.json").read_bytes()


def test_the_bill_names_each_package_that_lies_in_the_image(content: Content) -> None:
    packages = {part["purl"].partition("@")[0] for part in json.loads(content.bill)["components"]}
    installed = {name.split("/")[5] for name in content.members if name.startswith(f"{SITE}/") and "dist-info" in name}
    wheels = {"pkg:pypi/" + name.split("-")[0].lower().replace("_", "-") for name in installed}
    debs = {
        "pkg:deb/debian/" + posixpath.basename(name).replace("+", "%2B")
        for name, member in content.members.items()
        if name.startswith("var/lib/dpkg/status.d/") and member.isfile()
    }
    assert wheels | debs == packages


def test_a_node_has_neither_numpy_nor_the_other_parts(content: Content, image: Image) -> None:
    held = {name.split("/")[5] for name in content.members if name.startswith(f"{SITE}/")}
    absent = {"numpy", "scipy", "sklearn", "kubernetes", "aiohttp", "recommender", "updater"}
    assert held & absent == (set() if image == NODE else absent)
    assert {"elastipod", "actuator" if image == NODE else "recommender"} <= held
