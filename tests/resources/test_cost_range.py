"""Cost ranges contain the counted cost of requests, over the whole space of requests."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from api_schemas.jobs import CostUnknown, EstimatesResponse
from service.importers.catalogue import validate_with_imports
from service.parsing import RequestBodyError, parse_request
from service.privacy.errors import PrivacyComputationError
from service.resources.catalogue import resource
from service.resources.cost_range import (
    UNKNOWN_OF_ENGINES,
    UNKNOWN_OF_RESOURCES,
    CostRange,
    cost_range,
)
from tests.frozen.space import request
from tests.resources.counted_cost import counted_cost
from tests.slow_marker import thorough

LIMIT_SECONDS = 30.0
SHORT = 60_000
"""Likely microseconds up to which a request is computed here. More expensive requests are tested in longer runs."""
REFUSALS = (RequestBodyError, PrivacyComputationError, ValidationError)


def cost_and_range(number: int) -> tuple[CostRange, float] | None:
    """Return the cost range of a request, and its work plus function calls, about a microsecond each.

    Return None if the request is rejected, or if its likely cost exceeds `SHORT`.
    """
    name, body = request(number)
    computation = resource(name)
    try:
        sent = parse_request(computation.request_type, body, validate_with_imports)
        quoted = computation.quote(sent)
        found = cost_range(name, quoted, LIMIT_SECONDS)
        if found.likely > SHORT:
            return None
        return found, counted_cost(computation, sent, quoted, LIMIT_SECONDS)
    except REFUSALS:
        return None


@pytest.mark.parametrize("start", [44, *map(thorough, (0, 22, 66, 88, 110))])
def test_counted_cost_lies_in_range(start: int) -> None:
    """The counted cost of 22 successive requests, from all parts of the space, lies in their cost ranges."""
    found = [each for each in map(cost_and_range, range(3000 + start, 3022 + start)) if each is not None]
    assert len(found) > 5
    for each, cost in found:
        assert each.least <= each.likely <= each.most
        assert each.least <= cost <= each.most


def test_cost_ranges_are_ordered() -> None:
    """The bounds of every cost range are ordered.

    Some estimates are above the time limit, and some requests are ended by the time limit only.
    """
    ranges: list[CostRange] = []
    for number in range(4000, 4400):
        name, body = request(number)
        computation = resource(name)
        try:
            quoted = computation.quote(parse_request(computation.request_type, body, validate_with_imports))
        except REFUSALS:
            continue
        for seconds in (0.1, LIMIT_SECONDS):
            found = cost_range(name, quoted, seconds)
            assert 0 <= found.least <= found.likely <= found.most <= seconds * 1e6
            ranges.append(found)
    assert len({each.unknown for each in ranges}) > 3


def test_codes_of_unknown_costs_match_contract() -> None:
    used = {*UNKNOWN_OF_ENGINES.values(), *UNKNOWN_OF_RESOURCES.values()}
    assert used == set(get_args(CostUnknown))
    published = EstimatesResponse.model_json_schema()
    assert {"least", "likely", "most", "unknown"} <= published["properties"].keys()
    assert not {"least", "likely", "most", "unknown"} & set(published["required"])
