"""Requests for bounds that are part of another request: answered as they are alone, errors at their place there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from api_schemas.bounds import BoundsRequest
from api_schemas.nested import repoint
from service.computations.abstract import Quote, ResponseFields
from service.computations.allowance import MOST_WORK
from service.computations.bounds import ResolvedRequest, bounds_quote, read_bounds
from service.computations.estimates import INLINE_LIMIT, UNCERTAINTY
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.pair import TradeOffPair

Key = TypeVar("Key")


def evaluate_nested(
    request: BoundsRequest, places: Mapping[str, str], resolved: ResolvedRequest | None = None
) -> ResponseFields:
    """The fields of the response to a request for bounds, but digest and engine version.

    `places`: where its parts stand in the request around it, by their pointers in this one. `setting`: of the request,
    where it is known. Raises PrivacyComputationError with a pointer into the request around it.
    """
    return evaluate_with_curves(request, places, resolved)[0]


def evaluate_with_curves(
    request: BoundsRequest, places: Mapping[str, str], resolved: ResolvedRequest | None = None
) -> tuple[ResponseFields, TradeOffPair]:
    """Return the same, and the curves that were read."""
    try:
        return read_bounds(request, resolved)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def quote_nested(request: BoundsRequest, places: Mapping[str, str]) -> Quote:
    """Return the quote of one request for bounds. Raises like `answered`."""
    try:
        return bounds_quote(request)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def resolved_requests_of(quotes: Mapping[Key, Quote]) -> dict[Key, ResolvedRequest]:
    """Return the settings of requests for bounds by their quotes, but for those that were not planned."""
    return {key: quote.prepared.plans for key, quote in quotes.items() if quote.prepared is not None}


def combine_quotes(quotes: Sequence[Quote], beside: int = 0) -> Quote:
    """Return the quote of requests for bounds within one allowance, and `beside` them."""
    expected = sum(quote.cost for quote in quotes)
    most = math.ceil(min(sum(quote.ceiling for quote in quotes), MOST_WORK)) + beside
    cost = min(expected + beside, most)
    largest = max(quotes, key=lambda quote: quote.cost)
    inline = all(quote.inline for quote in quotes) and cost <= INLINE_LIMIT
    return Quote(
        cost, inline=inline, engine=largest.engine, uncertainty_factor=1.0 if inline else UNCERTAINTY, ceiling=most
    )
