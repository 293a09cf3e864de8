"""A job that works for so many seconds and ends well.

python batch.py SECONDS
"""

import signal
import sys
import time


def main() -> None:
    """Work, then say so."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("started", flush=True)
    until = time.perf_counter() + float(sys.argv[1])
    while time.perf_counter() < until:
        time.sleep(0.1)
    print("complete", flush=True)


if __name__ == "__main__":
    main()
