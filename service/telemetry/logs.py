"""Structured logs: one JSON object a line. Nothing here is global, so that importing and testing change nothing."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

_encode = json.JSONEncoder(default=repr, separators=(",", ":")).encode


def make_logger(level: str, stream: TextIO | None = None) -> FilteringBoundLogger:
    """A logger that writes events of at least `level` (`debug` ... `critical`), by default to standard error."""
    wrapper = structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()])
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            _add_time,
            _format_error,
            structlog.processors.JSONRenderer(serializer=_serialise),
        ],
        wrapper_class=wrapper,
    ).bind()
    return logger


def _add_time(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    event["timestamp"] = datetime.now(UTC).isoformat()
    return event


def _format_error(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    if event.get("exc_info") is None:
        event.pop("exc_info", None)
        return event
    return structlog.processors.format_exc_info(logger, name, event)


def _serialise(event: EventDict, **_: Any) -> str:
    # One encoder for all events: json.dumps with a `default` makes a new one for each, which costs more than encoding.
    return _encode(event)
