"""A service that holds some memory and does a little work, for ever; more work while a file says so.

    python service.py MIB BUSY_FRACTION [SWITCH_FILE]

While SWITCH_FILE exists it works with all its might.
"""

import os
import signal
import sys
import time

_MIB = 1024 * 1024
_STEP_SECONDS = 0.1


def main() -> None:
    """Hold, work, sleep."""
    held = bytearray(os.urandom(_MIB)) * int(sys.argv[1])
    calm = float(sys.argv[2])
    switch = "".join(sys.argv[3:4])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"serving with {len(held) // _MIB} MiB", flush=True)
    while True:
        fraction = 0.95 if switch and os.path.exists(switch) else calm
        until = time.perf_counter() + _STEP_SECONDS * fraction
        while time.perf_counter() < until:
            held.count(0, 0, _MIB)
        time.sleep(_STEP_SECONDS * (1 - fraction))


if __name__ == "__main__":
    main()
