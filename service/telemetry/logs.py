"""Structured logs: one JSON object a line. Nothing here is global, so that importing and testing change nothing."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import structlog
from pydantic_core import PydanticSerializationError, to_json
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

AUDITED: Final = frozenset({"decision"})
"""Events that a record of decisions needs, whatever the level."""


def make_logger(level: str, stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """Return a logger that writes events of at least `level` (`debug` ... `critical`), by default to standard error.

    Events in AUDITED are written at every level.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    wrapper = structlog.make_filtering_bound_logger(number)
    if number > logging.INFO:
        wrapper = type("AuditingLogger", (wrapper,), {"info": _info_of_audit})
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream or sys.stderr.buffer), processors=[_render], wrapper_class=wrapper
    ).bind()
    return logger


def _info_of_audit(logger: Any, event: str, **values: Any) -> Any:
    return logger._proxy_to_logger("info", event, **values) if event in AUDITED else None  # noqa: SLF001 - for wrappers


class EventHandler(logging.Handler):
    """Writes what libraries log as events, so that the stream holds nothing but JSON."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record of the standard library as an event."""
        self._logger.log(
            record.levelno, "library", library=record.name, message=record.getMessage(), exc_info=record.exc_info
        )


def _render(logger: WrappedLogger, level: str, event: EventDict) -> bytes:
    """Return one line of JSON. One step instead of a chain of processors: every request pays for it."""
    event["level"] = level
    event["timestamp"] = datetime.now(UTC).isoformat()
    if event.get("exc_info") is None:
        event.pop("exc_info", None)
    else:
        event = structlog.processors.format_exc_info(logger, level, event)
    try:
        return to_json(event, fallback=repr)
    except PydanticSerializationError:  # half of a surrogate pair: text that is no UTF-8
        return json.dumps(event, default=repr).encode()
