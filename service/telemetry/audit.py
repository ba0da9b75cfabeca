"""Audit stream: one line of JSON for each request and each decision, in a file or on standard output.

A thread writes the lines, so that no answer waits for a disk. While the stream cannot be written, records wait in
memory. When MOST_RECORDS wait, further records are lost and counted. Each batch is one write at the end of the file, so
that several processes can share it. A file that was renamed or removed is created again.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

from pydantic_core import PydanticSerializationError, to_json
from structlog.typing import FilteringBoundLogger

from service.telemetry.metrics import Metrics

STANDARD_OUTPUT: Final = "-"
MOST_RECORDS: Final = 20_000
"""Number of records that may wait for the disk. Each takes about one kilobyte of memory."""
BATCH: Final = 256
COLLECTING_SECONDS: Final = 0.05
"""Time for which records are collected, so that the thread does not compete with the event loop for each of them."""
RETRY_SECONDS: Final = 1.0
CLOSING_SECONDS: Final = 5.0

Record = Mapping[str, Any]


@final
class AuditStream:
    """Stream of records about requests to `target`: the path of a file, or "-" for standard output.

    `write` never blocks and never raises.
    """

    def __init__(self, target: str, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._target = target
        self._metrics = metrics
        self._logger = logger
        self._records: queue.Queue[Record | None] = queue.Queue(MOST_RECORDS)
        self._file: int | None = 1 if target == STANDARD_OUTPUT else None
        self._lost = 0
        self._failure: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread that writes the records."""
        self._thread.start()

    def write(self, record: Record) -> None:
        """Give a record, with the present time, to the thread that writes records.

        A record is lost and counted if 20 000 records wait already. Values that JSON cannot represent are written as
        text.
        """
        try:
            self._records.put_nowait({"timestamp": datetime.now(UTC), **record})
        except queue.Full:
            self._count_lost(1)

    def trouble(self) -> str | None:
        """Return a sentence for operators if records wait for a failed write or were lost, or None."""
        parts: list[str] = []
        if self._failure is not None:
            parts.append(f"the audit stream cannot be written ({self._failure}); {self._records.qsize()} records wait")
        if self._lost:
            parts.append(f"{self._lost} audit records were lost since the start")
        return "; ".join(parts) or None

    def close(self) -> None:
        """Write waiting records for at most five seconds, stop the thread, and count the records that are lost."""
        self._closing.set()
        with suppress(queue.Full):
            self._records.put_nowait(None)
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            records = [self._records.get()]
            self._closing.wait(COLLECTING_SECONDS)
            while len(records) < BATCH and not self._records.empty():
                records.append(self._records.get_nowait())
            is_last = None in records
            kept = [record for record in records if record is not None]
            is_last = not self._write_until_success(b"".join(map(_json_line, kept)), len(kept)) or is_last
        if self._file is not None and self._target != STANDARD_OUTPUT:
            os.close(self._file)

    def _write_until_success(self, lines: bytes, count: int) -> bool:
        # False: the stream was closed before, and all waiting records are lost
        while lines:
            try:
                lines = _lines_to_write_again(lines, os.write(self._open_or_reopen(), lines))
            except OSError as error:
                self._report_first_failure(error)
                if self._closing.wait(RETRY_SECONDS):
                    self._count_lost(count + self._records.qsize())
                    return False
        if self._failure is not None:
            self._failure = None
            self._logger.warning("audit", state="written again", lost=self._lost)
        return True

    def _open_or_reopen(self) -> int:
        if self._target == STANDARD_OUTPUT:
            return 1
        if self._file is not None:
            if _identity(os.fstat(self._file)) == _identity_at(self._target):
                return self._file
            os.close(self._file)
            self._file = None
        self._file = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def _count_lost(self, count: int) -> None:
        self._lost += count
        self._metrics.count_lost_audit_records(count)

    def _report_first_failure(self, error: OSError) -> None:
        self._metrics.count_audit_failure()
        cause = error.strerror or type(error).__name__
        if self._failure != cause:
            self._logger.error("audit", state="not written", cause=cause)
        self._failure = cause


def _json_line(record: Record) -> bytes:
    try:
        return to_json(record, fallback=repr) + b"\n"
    except PydanticSerializationError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(record, default=_fields_or_text).encode() + b"\n"


def _fields_or_text(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def _lines_to_write_again(lines: bytes, written: int) -> bytes:
    # a torn line is written again as a whole, after a line break
    start = lines.rfind(b"\n", 0, written) + 1
    return lines[written:] if start == written or written == len(lines) else b"\n" + lines[start:]


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _identity_at(path: str) -> tuple[int, int] | None:
    try:
        return _identity(Path(path).stat())
    except FileNotFoundError:
        return None
