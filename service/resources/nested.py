"""Requests for bounds inside another request.

The answers are equal to those of the inner request alone. JSON pointers of errors refer to the outer request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from api_schemas.bounds import BoundsRequest
from api_schemas.nested import repoint
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import Quote, ResponseFields
from service.resources.allowance import MOST_WORK
from service.resources.bounds import ResolvedRequest, bounds_quote, read_bounds
from service.resources.estimates import INLINE_LIMIT, UNCERTAINTY

Key = TypeVar("Key")


def evaluate_nested(
    request: BoundsRequest, places: Mapping[str, str], resolved: ResolvedRequest | None = None
) -> ResponseFields:
    """Return the fields of the response to a request for bounds, without digest and engine version.

    Parameters
    ----------
    places : Mapping of str to str
        JSON pointers in the outer request, by the pointers in this request.
    resolved : ResolvedRequest, optional
        The request with its chosen engines, if the caller has it.

    Raises
    ------
    PrivacyComputationError
        With a pointer into the outer request.
    """
    return evaluate_with_curves(request, places, resolved)[0]


def evaluate_with_curves(
    request: BoundsRequest, places: Mapping[str, str], resolved: ResolvedRequest | None = None
) -> tuple[ResponseFields, TradeOffPair]:
    """Return the fields of the response to a request for bounds, and the evaluated trade-off curves.

    `places` has JSON pointers in the outer request by the pointers in `request`. `resolved` is the request with its
    chosen engines, if known. Raises PrivacyComputationError with a pointer into the outer request.
    """
    try:
        return read_bounds(request, resolved)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def quote_nested(request: BoundsRequest, places: Mapping[str, str]) -> Quote:
    """Return the estimated cost of one request for bounds inside another request, in microseconds of CPU time.

    `places` has JSON pointers in the outer request, by the pointers in this request. Raises PrivacyComputationError
    with a JSON pointer into the outer request.
    """
    try:
        return bounds_quote(request)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def resolved_requests_of(quotes: Mapping[Key, Quote]) -> dict[Key, ResolvedRequest]:
    """Return the requests with chosen engines that belong to the estimates `quotes`, by the same keys.

    Estimates that were made without choosing engines are left out.
    """
    return {key: quote.prepared.plans for key, quote in quotes.items() if quote.prepared is not None}


def combine_quotes(quotes: Sequence[Quote], beside: int = 0) -> Quote:
    """Return the joint estimated cost, in microseconds of CPU time, of requests for bounds, plus the cost `beside`."""
    expected = sum(quote.cost for quote in quotes)
    most = math.ceil(min(sum(quote.ceiling for quote in quotes), MOST_WORK)) + beside
    cost = min(expected + beside, most)
    largest = max(quotes, key=lambda quote: quote.cost)
    inline = all(quote.inline for quote in quotes) and cost <= INLINE_LIMIT
    return Quote(
        cost, inline=inline, engine=largest.engine, uncertainty_factor=1.0 if inline else UNCERTAINTY, ceiling=most
    )
