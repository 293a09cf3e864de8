"""What a decision about one pod rests on besides the pod: the facts, the settings, and how urgent things are.

Owns these words. Where the facts come from is fleet.py's and service.py's matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from msgspec import Struct

from elastipod.limitmodes import LimitModes
from elastipod.limits import LimitRange
from elastipod.quantities import Resources
from updater.shape import FREE, PROPORTIONAL, Bounds
from updater.sizes import Advice, Sizes
from updater.steps import ShrinkRules, Usage


class Urgency(IntEnum):
    """What goes first; smaller is sooner."""

    KILLED = 0
    OWED = 1
    """A donor needs back what it gave."""
    ASKED = 2
    STARVED = 3
    STATED = 4
    SAVING = 5
    DRIFTED = 6
    """Within its bounds and off its target; subject to the cool-down."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide."""

    dead_band_fraction: float = 0.1
    cool_down_seconds: float = 3600.0
    step_seconds: float = 30.0
    shrink: ShrinkRules = field(default_factory=ShrinkRules)


class Facts(Struct, frozen=True, gc=False):
    """What the cluster says that concerns one pod, besides the pod."""

    advice: Advice | None = None
    conflict: str = ""
    """The autoscalers that claim the pod, where more than one does and so none holds."""
    foreign: str = ""
    """The recommender of an autoscaler that is not ours and claims the pod."""
    stated: Sizes = {}
    stated_problem: str = ""
    asked: bool = False
    """A person stated the size, with `elastipod resize`."""
    limit_ranges: tuple[LimitRange, ...] = ()
    bounds: Bounds = FREE
    """What the LimitRanges leave a container."""
    modes: LimitModes = PROPORTIONAL
    """How its limits are found."""
    resized_at: float | None = None
    on_the_way: bool = False
    """A resize of this pod has taken a step and has not reached its goal."""
    given: Mapping[str, Resources] = {}
    """Requests that the pod went down to for another's sake, by container; not raised before it needs them."""
    usage: Mapping[str, Usage] = {}
    relapsed: Sizes = {}
    """What containers had before a shrink that they were killed for; they get it back and keep it for a while."""
    namespace_off: bool = False
    """Pods of the namespace are never touched; nothing else is said then."""


DEFAULT_RULES: Final = Rules()
