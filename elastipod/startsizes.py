"""What a container's process reads of its size when it starts, and then no more.

Owns how it is recognised from the environment and the command: sizes handed down by the API (resourceFieldRef), Go's
GOMEMLIMIT and GOMAXPROCS, the heap of a JVM and of Node. What is done about it is the parts' matter.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from elastipod.pods import StartSize

_MOST_KEPT: Final = 2048
"""A longer command is not worth a place in a cache."""
_CPU, _MEMORY = "cpu", "memory"
_UNITS: Final = {letter: 1024**power for power, letter in enumerate("kmgt", start=1)} | {"": 1}
_GO_UNITS: Final = {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)} | {"B": 1, "": 1}
_GO_MEMORY: Final = re.compile(r"(\d{1,15})([KMGT]iB|B)?")
_HEAP: Final = re.compile(r"(?<!\S)(-Xmx|-XX:MaxHeapSize=)(\d{1,15})([kKmMgGtT]?)(?!\S)")
_HEAP_SHARE: Final = re.compile(r"(?<!\S)(-XX:MaxRAMPercentage=)\S")
_PROCESSORS: Final = re.compile(r"(?<!\S)-XX:ActiveProcessorCount=(\d{1,6})(?!\S)")
_OLD_SPACE: Final = re.compile(r"(?<!\S)(--max[-_]old[-_]space[-_]size)[= ](\d{1,9})(?!\S)")
_PROGRAM: Final = re.compile(r"(?:exec\s+)?(?:\S*/)?(java|node)(?!\S)")
_OPTION_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "NODE_OPTIONS")
TELLING_VARIABLES: Final = frozenset((*_OPTION_VARIABLES, "GOMEMLIMIT", "GOMAXPROCS"))
_SHELLS: Final = ("sh", "bash", "ash", "dash")


class Variable(Struct, frozen=True, gc=False):
    """One variable of a container's environment."""

    name: str
    value: str = ""
    follows: str = ""
    """`limits.memory` and the like, where its value is handed down from the container's own size."""


def start_sizes(environment: tuple[Variable, ...], command: tuple[str, ...]) -> tuple[StartSize, ...]:
    """What a process with this environment and command reads at its start; what is stated replaces a guess."""
    length = sum(map(len, command))
    return _known(environment, command) if length <= _MOST_KEPT else _start_sizes(environment, command)


def _start_sizes(environment: tuple[Variable, ...], command: tuple[str, ...]) -> tuple[StartSize, ...]:
    found: list[StartSize] = []
    for variable in environment:
        found += _of_variable(variable)
    text = " ".join(command)
    if "-" in text:
        found += _flags(text, "argument")
    if not any(one.resource == _MEMORY for one in found):
        program = _PROGRAM.match(_script(command))
        if program is not None:
            found.append(StartSize(_MEMORY, f"program {program[1]}"))
    return tuple(dict.fromkeys(found))


_known: Final = lru_cache(maxsize=4096)(_start_sizes)


def _of_variable(variable: Variable) -> Iterator[StartSize]:
    by = f"env {variable.name}"
    if variable.follows:
        _, _, resource = variable.follows.partition(".")
        if resource in (_CPU, _MEMORY):
            yield StartSize(resource, by)
    elif variable.name == "GOMEMLIMIT":
        stated = _GO_MEMORY.fullmatch(variable.value.strip())
        if stated is not None:
            yield StartSize(_MEMORY, by, int(stated[1]) * _GO_UNITS[stated[2] or ""])
    elif variable.name == "GOMAXPROCS":
        if variable.value.isascii() and variable.value.isdecimal() and len(variable.value) <= 6:
            yield StartSize(_CPU, by, int(variable.value) * 1000)
    elif variable.name in _OPTION_VARIABLES:
        yield from _flags(variable.value, by)


def _flags(text: str, where: str) -> Iterator[StartSize]:
    """The last of several counts, as it does for the process."""
    for heap in list(_HEAP.finditer(text))[-1:]:
        yield StartSize(_MEMORY, f"{where} {heap[1].rstrip('=')}", int(heap[2]) * _UNITS[heap[3].lower()])
    for old_space in list(_OLD_SPACE.finditer(text))[-1:]:
        yield StartSize(_MEMORY, f"{where} {old_space[1]}", int(old_space[2]) * 1024**2)
    if _HEAP_SHARE.search(text) and not _HEAP.search(text):
        yield StartSize(_MEMORY, f"{where} -XX:MaxRAMPercentage")
    for processors in list(_PROCESSORS.finditer(text))[-1:]:
        yield StartSize(_CPU, f"{where} -XX:ActiveProcessorCount", int(processors[1]) * 1000)


def _script(command: Sequence[str]) -> str:
    """What is run, without the shell that runs it."""
    if len(command) > 2 and command[0].rpartition("/")[2] in _SHELLS and command[1] == "-c":
        return command[2].lstrip()
    return command[0] + " " if command else ""
