"""Quarantine of results: digests whose answer two independent engines dispute, and the runs of these answers.

A quarantined result is never served again, also after a restart, and no resource serves a number of its run
(`resources/disputed.py`). Processes of one machine share a file, to which each appends one line for each digest.
Instances that share Redis store a marker in the place of the result, and one list of runs (`shared_quarantine.py`).

While the file cannot be read, the digests that the process knows stay refused, and all other results are served. Caches
stay in use meanwhile: a digest determines its result, so that a new computation would return the same disputed bytes.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from service.execution.errors import ResultQuarantined
from service.resources.disputed import NO_RUNS, Runs

FILE_NAME: Final = "quarantined_results"
"""Name of the file in the data folder."""
MARKER: Final = b'{"quarantined":true}'
"""Body that Redis holds in the place of a quarantined result."""
RELOAD_SECONDS: Final = 1.0
"""Largest age of the digests that other processes quarantined."""


def _report_nothing(_failure: str) -> None:
    """Do nothing. This is the default receiver of failures."""


@final
class ResultQuarantine:
    """Digests of quarantined results, in a file that the processes of one machine share.

    Without its `path` they are forgotten when the process ends. `report` receives a phrase when the file becomes
    unreadable, and an empty text when the file can be read again.
    """

    def __init__(self, path: Path | None = None, report: Callable[[str], None] = _report_nothing) -> None:
        self._path = path
        self._report = report
        self.failure = ""
        """Phrase that says why the file cannot be read, or ""."""
        self.damaged_lines = 0
        """Count of lines that name no digest."""
        self._digests: set[str] = set()
        self.known_runs: Runs = NO_RUNS
        """Digests of disputed runs at the last check of a digest. The value is another object when a run was added."""
        self._read_bytes = 0
        self._next_reload = 0.0

    def __len__(self) -> int:
        self._read_appended_lines()
        return len(self._digests)

    def __contains__(self, digest: str) -> bool:
        if time.monotonic() >= self._next_reload:
            self._read_appended_lines()
        return digest in self._digests

    @property
    def runs(self) -> Runs:
        """Digests of the disputed runs now, also of those that other processes added."""
        if time.monotonic() >= self._next_reload:
            self._read_appended_lines()
        return self.known_runs

    def add(self, digest: str, reason: str, run: str | None = None) -> None:
        """Put the result with this digest under quarantine for `reason`, and also the run with the digest `run`.

        The digest is on the disk when this method returns. If the disk does not take it, raise OSError; this process
        then still refuses the result.
        """
        self._digests.add(digest)
        self._add_run(run)
        if self._path is None:
            return
        # The first line feed ends a line that a full disk has cut. Empty lines are skipped.
        entry = {"digest": digest, "reason": reason, "time": round(time.time())} | ({} if run is None else {"run": run})
        line = b"\n" + json.dumps(entry).encode() + b"\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def check(self, digest: str, body: bytes | None = None) -> None:
        """Raise ResultQuarantined if the digest is quarantined, or if the body is the marker of another instance.

        Digests of other processes count at most RELOAD_SECONDS (1 s) after they were added. The marker is also added to
        the digests of this process.
        """
        if body == MARKER and digest not in self._digests:
            with suppress(OSError):  # the process knows the digest nevertheless
                self.add(digest, "another instance")
        if digest in self:
            raise ResultQuarantined(digest)

    def _add_run(self, run: str | None) -> None:
        if run is not None and run not in self.known_runs:
            self.known_runs |= {run}

    def _read_appended_lines(self) -> None:
        # an incomplete last line is read the next time
        self._next_reload = time.monotonic() + RELOAD_SECONDS
        if self._path is None:
            return
        added, failure = b"", ""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read_bytes:  # another file is in the place of the earlier one
                    self._read_bytes = 0
                file.seek(self._read_bytes)
                added = file.read()
        except (FileNotFoundError, NotADirectoryError):  # nothing was ever quarantined here
            self._read_bytes = 0
        except OSError as error:
            failure = f"{self._path}: {error.strerror}"
        if failure != self.failure:
            self.failure = failure
            self._report(failure)
        for line in added.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            self._read_bytes += len(line)
            try:
                entry = json.loads(line)
                self._digests.add(entry["digest"])
                self._add_run(entry.get("run"))
            except (ValueError, KeyError, TypeError):
                self.damaged_lines += bool(line.strip())
