"""Likely costs against measured CPU over the stored requests: shares within a factor, and ranges that hold."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from service.importers.catalogue import validate_with_imports
from service.parsing import RequestBodyError, parse_request
from service.privacy.errors import PrivacyComputationError
from service.resources.catalogue import resource
from service.resources.cost_range import CostRange, cost_range
from tests.frozen.answers import DIGEST, ENGINE, read_frozen_answers
from tests.frozen.space import TURNS, request

FACTOR: Final = 4.0
SHORT_SECONDS: Final = 0.010
"""CPU seconds below which a cost needs no accurate estimate."""
LIMIT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Priced:
    """Request with the range of its estimated cost, and its measured CPU seconds."""

    number: int
    group: str
    range: CostRange
    seconds: float

    @property
    def ratio(self) -> float:
        """Likely estimated cost over measured cost of the request."""
        return self.range.likely * 1e-6 / self.seconds

    @property
    def is_near(self) -> bool:
        """Whether the likely estimated cost is within the allowed factor of the measured cost."""
        return 1 / FACTOR <= self.ratio <= FACTOR


def priced(number: int) -> Priced | None:
    """Measure the request with this number. Return None if it is rejected."""
    name, body = request(number)
    computation = resource(name)
    try:
        sent = parse_request(computation.request_type, body, validate_with_imports)
        quoted = computation.quote(sent)
        started = time.process_time()
        (quoted.prepared or computation).body(sent, DIGEST, ENGINE)
    except (RequestBodyError, PrivacyComputationError, ValidationError):
        return None
    seconds = time.process_time() - started
    return Priced(number, f"{name} {quoted.engine}", cost_range(name, quoted, LIMIT_SECONDS), seconds)


def print_space(first: int) -> None:
    """Print the share of requests whose estimated cost is within the factor, for all, for halves, and by groups.

    The worst groups come first. Constants were fitted to the requests whose round of the space is even. Those of odd
    rounds were held out.
    """
    skipped = set(read_frozen_answers().skipped)
    numbers = [number for number in range(first + len(skipped)) if number not in skipped][:first]
    found = [each for each in map(priced, numbers) if each is not None and each.seconds >= SHORT_SECONDS]
    halves = [[each for each in found if each.number // len(TURNS) % 2 == half] for half in (0, 1)]
    for name, part in (("all", found), ("chosen on", halves[0]), ("held out", halves[1])):
        near = sum(each.is_near for each in part)
        print(
            f"{name}: {near} of {len(part)} above 10 ms within a factor of {FACTOR:g}, {near / max(len(part), 1):.1%}"
        )
    inside = sum(each.range.least <= each.seconds * 1e6 <= each.range.most for each in found)
    print(f"{inside} of {len(found)} between least and most")
    groups = defaultdict[str, list[Priced]](list)
    for each in found:
        groups[each.group].append(each)
    for group, part in sorted(groups.items(), key=lambda one: sum(each.is_near for each in one[1]) - len(one[1])):
        ratios = sorted(each.ratio for each in part)
        near = sum(each.is_near for each in part)
        print(f"{group:32} {near:4} of {len(part):4}, ratios {ratios[0]:.2g} to {ratios[-1]:.2g}")
