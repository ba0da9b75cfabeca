"""Requests for bounds that are part of another request: answered as they are alone, errors at their place there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from api_schemas.bounds import BoundsRequest
from api_schemas.nested import moved
from service.computations.abstract import Quote, ResponseFields
from service.computations.allowance import MOST_WORK
from service.computations.bounds import bounds_quote, read_bounds
from service.computations.estimates import INLINE_LIMIT, UNCERTAINTY
from service.privacy.errors import PrivacyComputationError
from service.privacy.trade_off.pair import TradeOffPair


def answered(request: BoundsRequest, places: Mapping[str, str]) -> ResponseFields:
    """The fields of the response to a request for bounds, but digest and engine version.

    `places`: where its parts stand in the request around it, by their pointers in this one. Raises
    PrivacyComputationError with a pointer into the request around it.
    """
    return read(request, places)[0]


def read(request: BoundsRequest, places: Mapping[str, str]) -> tuple[ResponseFields, TradeOffPair]:
    """The same, and the curves that were read, for who has more to read off them."""
    try:
        return read_bounds(request)
    except PrivacyComputationError as error:
        error.pointer = moved(error.pointer, places)
        raise


def quoted(requests: Iterable[tuple[BoundsRequest, Mapping[str, str]]], beside: int = 0) -> Quote:
    """What requests for bounds cost together, within one allowance, and `beside` them. Raises like `answered`."""
    quotes: list[Quote] = []
    for request, places in requests:
        try:
            quotes.append(bounds_quote(request))
        except PrivacyComputationError as error:
            error.pointer = moved(error.pointer, places)
            raise
    expected = sum(quote.cost for quote in quotes)
    most = math.ceil(min(sum(quote.most for quote in quotes), MOST_WORK)) + beside
    cost = min(expected + beside, most)
    dearest = max(quotes, key=lambda quote: quote.cost)
    inline = all(quote.inline for quote in quotes) and cost <= INLINE_LIMIT
    return Quote(cost, inline=inline, engine=dearest.engine, uncertainty=1.0 if inline else UNCERTAINTY, most=most)
