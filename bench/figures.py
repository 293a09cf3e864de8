"""How a figure is printed: what was measured, against what was promised, and how far it is from a floor.

A floor is the least work that any solution has to do, measured in the same run: on a shared machine the ratio says more
than the seconds.
"""

from dataclasses import dataclass, field


@dataclass
class Figures:
    """The figures of one benchmark."""

    missed: list[str] = field(default_factory=list)

    def show(
        self,
        what: str,
        value: float,
        unit: str,
        promise: float,
        *,
        floor: float | None = None,
        of: str = "",
        at_least: bool = False,
    ) -> None:
        """Print one figure; a value above the promise is missed, or one below it where it is to be `at_least` that."""
        kept, sign = (value >= promise, ">=") if at_least else (value <= promise, "<=")
        line = f"{what}: {value:.4g} {unit} (promised {sign} {promise:.4g} {unit}: {'kept' if kept else 'MISSED'})"
        if floor is not None:
            line += f"; {value / floor:.2f} x the floor of {floor:.4g} {unit}, {of}"
        print(line, flush=True)
        if not kept:
            self.missed.append(what)

    @property
    def exit_code(self) -> int:
        """0 when every promise was kept."""
        return 1 if self.missed else 0
