"""Programs that want memory: `hog KIND MIB THREADS`. They wait for a line, then want it as fast as they can."""

import ctypes
import mmap
import os
import resource
import socket
import sys
import threading

MIB = 1024 * 1024
_kept: list[object] = []


def touch(mib: int, threads: int) -> None:
    """Touch fresh pages, each thread its share; memset lets go of the interpreter."""
    memory = mmap.mmap(-1, mib * MIB)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    share = mib * MIB // threads

    def one(number: int) -> None:
        for at in range(0, share, MIB):
            ctypes.memset(start + number * share + at, 1, min(MIB, share - at))

    workers = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    _kept.append(memory)


def readinto(mib: int) -> None:
    kept = []
    with open("/dev/zero", "rb", buffering=0) as zero:
        for _ in range(mib):
            block = mmap.mmap(-1, MIB)
            assert zero.readinto(block) == MIB
            kept.append(block)


def fork(mib: int) -> None:
    """Children that each hold their share until all have it."""
    reader, writer = os.pipe()
    children = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            os.close(writer)
            held = b"A" * (mib * MIB // 8)
            os.read(reader, 1)
            os._exit(0 if held else 1)
        children.append(pid)
    threading.Event().wait(3)
    os.close(writer)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)


def sockets(mib: int) -> None:
    """Kernel memory: filled buffers of unix sockets."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (65_536, 65_536))
    kept = []
    sent = 0
    while sent < mib * MIB:
        pair = socket.socketpair()
        pair[0].setblocking(False)
        kept.append(pair)
        try:
            while True:
                sent += pair[0].send(b"A" * 65536)
        except BlockingIOError:
            continue


def cache(mib: int) -> None:
    """Read a disk through the page cache."""
    with open("/dev/vda", "rb", buffering=0) as disk:
        for _ in range(mib):
            assert len(disk.read(MIB)) == MIB


def main() -> None:
    """Wait for the go."""
    kind, mib, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.stdin.readline()
    if kind in ("touch", "hold"):
        touch(mib, threads)
        threading.Event().wait(20 if kind == "hold" else 0)
    else:
        {"readinto": readinto, "fork": fork, "sockets": sockets, "cache": cache}[kind](mib)


if __name__ == "__main__":
    main()
