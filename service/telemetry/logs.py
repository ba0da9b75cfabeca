"""Structured logs: one JSON object a line. Nothing here is global, so that importing and testing change nothing."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger


def make_logger(level: str, stream: TextIO | None = None) -> FilteringBoundLogger:
    """A logger that writes events of at least `level` (`debug` ... `critical`), by default to standard error."""
    wrapper = structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()])
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=wrapper,
        cache_logger_on_first_use=True,
    ).bind()
    return logger
