"""Checks of the machine: memory limit, temporary files, and the numbers that this installation computes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from service.doctor.finding import MEGABYTE, Finding, as_mebibytes
from service.engine_version import ENGINE_VERSION
from service.execution.workers import RESERVE_MEMORY_BYTES
from service.rendering.chart_images import MEMORY_LIMIT_BYTES
from service.self_test import REFERENCE_CASES
from service.settings import Settings

SERVER_BYTES: Final = 700 * MEGABYTE
"""Memory of the server process with the longest uploads that it accepts at once, and with full caches."""
MEMORY_LIMIT_FILES: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
LARGEST_LIMIT_BYTES: Final = 2**50
"""Limits above this value are the way in which the kernel writes that there is none."""


def check_versions() -> Iterator[Finding]:
    """Yield the versions of package, engine and interpreter."""
    python = ".".join(map(str, sys.version_info[:3]))
    sentence = f"privacy-bounds {version('privacy-bounds')}, engine {ENGINE_VERSION}, Python {python}."
    yield Finding("versions", "ok", sentence)


def check_numbers() -> Iterator[Finding]:
    """Yield whether this installation computes the published values of the self-test."""
    wrong = "; ".join(filter(None, (case.check() for case in REFERENCE_CASES)))
    if wrong:
        remedy = "Do not use this installation: install the locked versions again, on a supported processor."
        yield Finding("numbers", "failed", f"A known answer is wrong: {wrong}.", remedy)
    else:
        yield Finding("numbers", "ok", f"{len(REFERENCE_CASES)} published values are computed correctly.")


def check_memory(settings: Settings, files: tuple[Path, ...] = MEMORY_LIMIT_FILES) -> Iterator[Finding]:
    """Yield whether the processes of the service fit into the memory limit of the container.

    `files` are those that may hold this limit; without a limit nothing is wrong. Too little memory is a warning.
    """
    limit = next(filter(None, map(_memory_limit, files)), None)
    if limit is None:
        yield Finding("memory", "ok", "No memory limit of a container applies.")
        return
    needed = SERVER_BYTES + RESERVE_MEMORY_BYTES + MEMORY_LIMIT_BYTES
    needed += settings.worker_count * settings.worker_memory_limit_bytes
    text = f"The service may use {as_mebibytes(needed)}, and the container {as_mebibytes(limit)}."
    if needed <= limit:
        yield Finding("memory", "ok", text)
    else:
        remedy = "Raise the limit of the container, or lower PRIVACY_BOUNDS_WORKER_COUNT or _WORKER_MEMORY_LIMIT_BYTES."
        yield Finding("memory", "warning", f"{text} The kernel may end processes.", remedy)


def check_temporary_folder() -> Iterator[Finding]:
    """Yield whether temporary files can be written."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"privacy-bounds")
    except OSError as error:
        remedy = "Mount a writable folder at /tmp, or name one in TMPDIR."
        yield Finding("temporary files", "failed", f"No temporary file can be written: {error.strerror}.", remedy)
    else:
        yield Finding("temporary files", "ok", f"Files can be written in {tempfile.gettempdir()}.")


def check_user() -> Iterator[Finding]:
    """Yield whether the process runs without the rights of root."""
    if os.geteuid() == 0:
        remedy = "Run the service as a user of its own. The image does."
        yield Finding("user", "warning", "The command runs as root.", remedy)
    else:
        yield Finding("user", "ok", f"The command runs as user {os.geteuid()}, without the rights of root.")


def _memory_limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < LARGEST_LIMIT_BYTES else None
