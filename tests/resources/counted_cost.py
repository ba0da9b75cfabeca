"""Cost of a request in counted work and function calls, which does not depend on the machine."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from api_schemas.base import Request
from service.privacy.numerics.work import at_most
from service.resources.abstract import Computation, Quote
from tests.frozen.answers import DIGEST, ENGINE


def counted_cost(computation: Computation[Any, Any], sent: Request, quoted: Quote, limit_seconds: float) -> float:
    """Return the work of a request plus its function calls, about a microsecond each."""
    calls = 0

    def count(_: FrameType, __: str, ___: Any) -> None:
        nonlocal calls
        calls += 1

    with at_most(limit_seconds * 1e6) as work:
        sys.setprofile(count)
        try:
            (quoted.prepared or computation).body(sent, DIGEST, ENGINE)
        finally:
            sys.setprofile(None)
    return calls + work.done
