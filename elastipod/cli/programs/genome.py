"""A small genome assembler, of the kind that is killed near its end.

It reads made-up DNA, counts k-mers, and near its end lays out all reads at once: memory leaps within a fraction of a
second. It has no checkpoint. Its output ends with a digest, so that anyone can see whether it is complete.

    python genome.py READS LEAP_MIB SECONDS
"""

import hashlib
import random
import sys
import time
from collections import Counter

_MIB = 1024 * 1024
_PAGE = 4096
_READ_LENGTH = 100
_K = 12


def main() -> None:
    """Count, leap, write."""
    reads, leap_mib, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    bases = random.Random(7)
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    started = time.perf_counter()
    for number in range(1, reads + 1):
        read = "".join(bases.choices("ACGT", k=_READ_LENGTH))
        counts.update(read[at : at + _K] for at in range(0, _READ_LENGTH - _K, 7))
        digest.update(read.encode())
        if number % (reads // 10) == 0:
            print(f"read {number} of {reads}", flush=True)
        pause = started + seconds * number / reads - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
    longest_stall = lay_out(leap_mib)
    for kmer, count in counts.most_common(5):
        print(f"kmer {kmer} {count}")
    print(f"longest stall {longest_stall * 1000:.1f} ms")
    print(f"complete {reads} reads {digest.hexdigest()}", flush=True)


def lay_out(mib: int) -> float:
    """Fill that much memory as fast as the machine can; the longest wait for one page, in seconds."""
    layout = bytearray()
    longest = 0.0
    for _ in range(mib):
        began = time.perf_counter()
        layout += b"A" * _MIB
        longest = max(longest, time.perf_counter() - began)
    assert layout[-_PAGE] == ord("A")
    time.sleep(1.0)
    return longest


if __name__ == "__main__":
    main()
