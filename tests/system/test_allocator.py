"""The threads of a server share one arena of the allocator, so that memory which one thread frees serves the others."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

COUNT = """
import ctypes, sys, tempfile, threading
from service.server.allocator import share_one_arena

if sys.argv[1] == "shared":
    share_one_arena()
threads = 6
barrier = threading.Barrier(threads)

def allocate():
    barrier.wait()
    kept = [bytes(10_000) for _ in range(100)]
    barrier.wait()

running = [threading.Thread(target=allocate) for _ in range(threads)]
for each in running:
    each.start()
for each in running:
    each.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(library.fopen(file.name.encode(), b"w"))
    library.malloc_info(0, stream)
    library.fclose(stream)
    print(file.read().count(b"<heap nr="))
"""


def arenas(kind: str) -> int:
    """Return the number of arenas of a process whose threads allocate, after `share_one_arena` if `kind` is shared."""
    ended = subprocess.run([sys.executable, "-c", COUNT, kind], capture_output=True, text=True, check=True)
    return int(ended.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library has no arenas")
def test_threads_of_a_server_share_one_arena() -> None:
    assert arenas("shared") == 1
    assert arenas("default") > 1
