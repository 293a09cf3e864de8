"""The Containerfile is of the same locked parts as the images that are built here."""

import json
import re
import shlex

import pytest

from elastipod import __version__
from images.recipes import ENTRYPOINT, ENVIRONMENT, FOLDER, IMAGES, ROOT, Image

Stage = list[tuple[str, str]]


def stages() -> dict[str, Stage]:
    text = re.sub(r"^#.*\n", "", (FOLDER / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    stage: Stage = []
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = found.setdefault(rest.rpartition(" AS ")[2], [])
        stage.append((word, rest))
    return found


def said(stage: Stage, word: str) -> list[str]:
    return [rest for found, rest in stage if found == word]


def site_of(image: Image) -> Stage:
    (copied,) = said(stages()[image.name], "COPY")
    source = re.fullmatch(r"--from=(\S+) /site /usr/local/lib/python3\.11/site-packages", copied)
    assert source
    return stages()[source[1]]


each_image = pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)


@each_image
def test_it_starts_as_the_image_built_here_does(image: Image) -> None:
    stage = stages()[image.name]
    assert said(stage, "USER") == [image.user]
    assert [json.loads(rest) for rest in said(stage, "ENTRYPOINT")] == [list(ENTRYPOINT)]
    assert [json.loads(rest) for rest in said(stage, "CMD")] == ([list(image.command)] if image.command else [])
    told = dict(pair.split("=") for rest in said(stage, "ENV") for pair in rest.split())
    # Where the programs lie is the base's own matter.
    assert told == {name: value for name, value in ENVIRONMENT.items() if name != "PATH"}


@each_image
def test_it_says_what_it_is_as_the_image_built_here_does(image: Image) -> None:
    told = dict(pair.split("=", 1) for rest in said(stages()[image.name], "LABEL") for pair in shlex.split(rest))
    assert {name.removeprefix("org.opencontainers.image."): text for name, text in told.items()} == {
        "title": image.title,
        "version": __version__,
        "licenses": "Apache-2.0",
    }


@each_image
def test_it_is_not_made_where_a_program_of_it_can_not_be_imported(image: Image) -> None:
    (run,) = said(stages()[image.name], "RUN")
    assert json.loads(run) == ["python", "-B", "-c", f"import {', '.join(image.programs)}"]


@each_image
def test_the_tag_it_tells_people_is_the_one_that_the_chart_asks_for(image: Image) -> None:
    (line,) = re.findall(rf"--target {image.name} -t (\S+)", (FOLDER / "Containerfile").read_text())
    assert line == f"REGISTRY/{image.reference(__version__)}"


def test_the_engine_is_sent_what_is_copied_and_nothing_else() -> None:
    lines = (FOLDER / "Containerfile.dockerignore").read_text().splitlines()
    ignored = [line for line in lines if line and not line.startswith("#")]
    assert (ignored[0], ignored[-1]) == ("*", "**/__pycache__")
    copied = {name for rest in said(stages()["build"], "COPY") for name in rest.split()[:-1]}
    assert sorted(ignored[1:-1]) == sorted(f"!{name}" for name in copied)


@each_image
def test_it_installs_the_same_lock_and_leaves_out_the_same(image: Image) -> None:
    run = said(site_of(image), "RUN")
    assert [name for line in run for name in re.findall(r"-r (\S+)", line)] == [
        str(image.requirements.relative_to(ROOT))
    ]
    removed = [name for line in run for name in re.findall(r"/site/(\S+)", line.partition("&&")[0]) if "rm" in line]
    assert sorted(removed) == sorted(("bin", *image.left_out))


def test_no_wheel_comes_in_without_its_hash() -> None:
    installs = [
        command.strip()
        for stage in stages().values()
        for line in said(stage, "RUN")
        for command in line.split("&&")
        if "pip install" in command
    ]
    assert len(installs) == 5
    for command in installs:
        assert "--require-hashes" in command or "--no-deps --no-index" in command


def test_every_base_is_the_one_that_can_be_pinned() -> None:
    assert {said(stage, "FROM")[0].partition(" ")[0] for stage in stages().values() if said(stage, "FROM")} == {
        "${PYTHON}",
        "build",
    }
