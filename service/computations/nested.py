"""Requests for bounds that are part of another request: answered as they are alone, errors at their place there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from api_schemas.bounds import BoundsRequest
from api_schemas.nested import repoint
from service.computations.abstract import Quote, ResponseFields
from service.computations.allowance import MOST_WORK
from service.computations.bounds import Setting, bounds_quote, read_bounds
from service.computations.estimates import INLINE_LIMIT, UNCERTAINTY
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.pair import TradeOffPair

Key = TypeVar("Key")


def answered(request: BoundsRequest, places: Mapping[str, str], setting: Setting | None = None) -> ResponseFields:
    """The fields of the response to a request for bounds, but digest and engine version.

    `places`: where its parts stand in the request around it, by their pointers in this one. `setting`: of the request,
    where it is known. Raises PrivacyComputationError with a pointer into the request around it.
    """
    return read(request, places, setting)[0]


def read(
    request: BoundsRequest, places: Mapping[str, str], setting: Setting | None = None
) -> tuple[ResponseFields, TradeOffPair]:
    """Return the same, and the curves that were read."""
    try:
        return read_bounds(request, setting)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def quoted_alone(request: BoundsRequest, places: Mapping[str, str]) -> Quote:
    """Return the quote of one request for bounds. Raises like `answered`."""
    try:
        return bounds_quote(request)
    except PrivacyComputationError as error:
        error.pointer = repoint(error.pointer, places)
        raise


def settings_of(quotes: Mapping[Key, Quote]) -> dict[Key, Setting]:
    """Return the settings of requests for bounds by their quotes, but for those that were not planned."""
    return {key: quote.begun.plans for key, quote in quotes.items() if quote.begun is not None}


def together(quotes: Sequence[Quote], beside: int = 0) -> Quote:
    """Return the quote of requests for bounds within one allowance, and `beside` them."""
    expected = sum(quote.cost for quote in quotes)
    most = math.ceil(min(sum(quote.most for quote in quotes), MOST_WORK)) + beside
    cost = min(expected + beside, most)
    largest = max(quotes, key=lambda quote: quote.cost)
    inline = all(quote.inline for quote in quotes) and cost <= INLINE_LIMIT
    return Quote(cost, inline=inline, engine=largest.engine, uncertainty=1.0 if inline else UNCERTAINTY, most=most)
