"""Requests for bounds that are part of another request: answered as they are alone, errors at their place there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from api_schemas.bounds import BoundsRequest
from api_schemas.nested import moved
from service.computations.abstract import Quote, ResponseFields
from service.computations.allowance import MOST_WORK
from service.computations.bounds import Setting, bounds_quote, read_bounds
from service.computations.estimates import INLINE_LIMIT, UNCERTAINTY
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.pair import TradeOffPair


def answered(request: BoundsRequest, places: Mapping[str, str]) -> ResponseFields:
    """The fields of the response to a request for bounds, but digest and engine version.

    `places`: where its parts stand in the request around it, by their pointers in this one. Raises
    PrivacyComputationError with a pointer into the request around it.
    """
    return read(request, places)[0]


def read(
    request: BoundsRequest, places: Mapping[str, str], setting: Setting | None = None
) -> tuple[ResponseFields, TradeOffPair]:
    """Return the same, and the curves that were read. `setting`: of the request, where it is known."""
    try:
        return read_bounds(request, setting)
    except PrivacyComputationError as error:
        error.pointer = moved(error.pointer, places)
        raise


def quoted(requests: Iterable[tuple[BoundsRequest, Mapping[str, str]]], beside: int = 0) -> Quote:
    """What requests for bounds cost together, within one allowance, and `beside` them. Raises like `answered`."""
    return together([quoted_alone(request, places) for request, places in requests], beside)


def quoted_alone(request: BoundsRequest, places: Mapping[str, str]) -> Quote:
    """Return the quote of one request for bounds. Raises like `answered`."""
    try:
        return bounds_quote(request)
    except PrivacyComputationError as error:
        error.pointer = moved(error.pointer, places)
        raise


def together(quotes: Sequence[Quote], beside: int = 0) -> Quote:
    """Return the quote of requests for bounds within one allowance, and `beside` them."""
    expected = sum(quote.cost for quote in quotes)
    most = math.ceil(min(sum(quote.most for quote in quotes), MOST_WORK)) + beside
    cost = min(expected + beside, most)
    largest = max(quotes, key=lambda quote: quote.cost)
    inline = all(quote.inline for quote in quotes) and cost <= INLINE_LIMIT
    return Quote(cost, inline=inline, engine=largest.engine, uncertainty=1.0 if inline else UNCERTAINTY, most=most)
