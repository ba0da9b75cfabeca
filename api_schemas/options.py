"""Options of methods: which method accepts which option, and the default of an absent option."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from pydantic import BaseModel

from api_schemas.base import Request
from api_schemas.limits import limit_error
from api_schemas.scalar_types import (
    DEFAULT_TOLERANCE,
    OptionalConfidenceLevel,
    OptionalDigits,
    OptionalOrder,
    OptionalSamples,
    OptionalSeed,
    RelativeTolerance,
)


class MethodOptions(BaseModel):
    """Options of composition engines in a request, which its response repeats.

    Options that the methods of the request do not accept are absent.
    """

    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE
    order: OptionalOrder = None
    samples: OptionalSamples = None
    seed: OptionalSeed = None
    confidence: OptionalConfidenceLevel = None
    digits: OptionalDigits = None


class Option(NamedTuple):
    """Top-level field of a request that one method accepts, with its default."""

    method: str
    default: int | float


OPTIONS: Final[dict[str, Option]] = {
    "order": Option("edgeworth", 4),
    "samples": Option("monte_carlo", 100_000),
    "seed": Option("monte_carlo", 0),
    "confidence": Option("monte_carlo", 0.999),
    "digits": Option("ground_truth", 25),
}
ONLY_WHERE_ASKED: Final = "ground_truth"
"""Too dear to be part of `all` unasked: it takes part where its option is given."""


def settle_options(request: Request, methods: Collection[str]) -> None:
    """Fill in the default options of a request during validation, so that equal requests have one digest.

    Raise PydanticCustomError for an option that none of the methods accepts. The method `all` accepts every option.
    """
    held = vars(request)
    for_all = " or all" if "method" in held else ""  # several methods are named one by one
    for name, option in OPTIONS.items():
        taken = option.method in methods
        if held[name] is None:
            if taken or ("all" in methods and option.method != ONLY_WHERE_ASKED):
                held[name] = option.default
        elif not taken and "all" not in methods:
            raise limit_error(f"/{name}", f"Send this option only with the method {option.method}{for_all}.")
