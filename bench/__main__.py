"""`python -m bench [NAME ...]`: run all benchmarks, or those named, one after the other.

Each is a module with a `main()` that prints its figures and returns 0 when every promise held. Exit code 1 otherwise.
"""

import subprocess
import sys
from pathlib import Path

NAMES = (
    "recommender",
    "growth",
    "pauses",
    "scrape",
    "endurance",
    "history",
    "upstream",
    "listing",
    "updater",
    "resizes",
    "admission",
    "actuator",
    "simulation",
)


def main() -> int:
    """Run them in processes of their own, so that none warms or fills another's memory."""
    wanted = sys.argv[1:] or NAMES
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        sys.stderr.write(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(NAMES)}\n")
        return 2
    failed: list[str] = []
    for name in wanted:
        print(f"== {name}", flush=True)
        run = subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=Path(__file__).parent.parent, check=False)
        if run.returncode:
            failed.append(name)
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
