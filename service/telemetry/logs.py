"""Structured logs: one JSON object per line. The module has no global state."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import Any, BinaryIO, Final, TextIO

import structlog
from pydantic_core import PydanticSerializationError, to_json
from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, WrappedLogger

AUDIT_EVENTS: Final = frozenset({"decision"})
"""Events of the audit trail, which are written at every log level."""


def make_logger(level: str, stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """Return a logger that writes events of at least `level` (`debug` ... `critical`) to `stream`.

    The default stream is standard error. Events are lines of JSON, or readable lines on a terminal. Decisions of
    policies are written at every level. Raise KeyError for an unknown level.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    wrapper = structlog.make_filtering_bound_logger(number)
    if number > logging.INFO:
        wrapper = type("AuditingLogger", (wrapper,), {"info": _log_audit_event})
    is_terminal = stream is None and sys.stderr.isatty()
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream or sys.stderr.buffer),
        processors=[_render_for_people if is_terminal else _render_json],
        wrapper_class=wrapper,
    ).bind()
    return logger


def _log_audit_event(logger: Any, event: str, **values: Any) -> Any:
    return logger._proxy_to_logger("info", event, **values) if event in AUDIT_EVENTS else None  # noqa: SLF001 - for wrappers


class EventHandler(logging.Handler):
    """Handler that writes log records of libraries as events, so that the stream contains only JSON."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record of the standard library as an event."""
        self._logger.log(
            record.levelno, "library", library=record.name, message=record.getMessage(), exc_info=record.exc_info
        )


def _render_json(logger: WrappedLogger, level: str, event: EventDict) -> bytes:
    # a single function is faster than a chain of structlog processors
    event["level"] = level
    event["timestamp"] = datetime.now(UTC).isoformat()
    if event.get("exc_info") is None:
        event.pop("exc_info", None)
    else:
        event = structlog.processors.format_exc_info(logger, level, event)
    try:
        return to_json(event, fallback=repr)
    except PydanticSerializationError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(event, default=repr).encode()


def _render_for_people(logger: WrappedLogger, level: str, event: EventDict) -> bytes:
    fields = {name: _escaped(value) for name, value in event.items()}
    event = {"timestamp": datetime.now().astimezone().strftime("%H:%M:%S"), "level": level, **fields}
    if event.get("exc_info") is None:
        event.pop("exc_info", None)
    # Local variables of a traceback may hold requests, which logs never contain.
    render = structlog.dev.ConsoleRenderer(
        pad_event_to=0, pad_level=False, sort_keys=False, exception_formatter=_write_escaped_traceback
    )
    return render(logger, level, event).encode(errors="backslashreplace")


def _write_escaped_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    stream.write("\n".join(map(_escaped, text.getvalue().split("\n"))))


def _escaped(value: Any) -> Any:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in value)
