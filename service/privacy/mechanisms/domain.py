"""Domains of mechanism parameters, declared next to the field and checked when a value is built."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, cast, get_type_hints

from service.privacy.errors import OutOfDomain


@dataclass(frozen=True, slots=True)
class Domain:
    """Interval of numbers from `low` to `high`, both included; without `low` if `open_low`.

    With `integer`, the interval contains integers only. With `or_infinite`, infinity belongs to the domain.
    """

    low: float
    high: float
    open_low: bool = False
    integer: bool = False
    or_infinite: bool = False

    def __contains__(self, value: object) -> bool:
        kinds = (int,) if self.integer else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        if self.or_infinite and value == math.inf:
            return True
        return (self.low < value if self.open_low else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        kind, more = "an integer" if self.integer else "a number", " or infinity" if self.or_infinite else ""
        return f"{kind} in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}]{more}"


NOISE_MULTIPLIER = Domain(1e-4, 1e15)
SAMPLE_RATE = Domain(0.0, 1.0, open_low=True)
STEPS = Domain(1, 10**12, integer=True)
EPOCHS = Domain(0.0, 1e12, open_low=True)
PHASES = Domain(1, 10_000, integer=True)
TOTAL_STEPS = Domain(1, 10**15, integer=True)
EPSILON = Domain(0.0, 1e6)
DELTA = Domain(0.0, 1.0)
MU = Domain(0.0, 1e6)
RHO = Domain(0.0, 1e6)
ORDER = Domain(1.0, 1e9, or_infinite=True)
DIVERGENCE = Domain(0.0, 1e6, or_infinite=True)
DATASET_SIZE = Domain(1, 10**12, integer=True)
BATCH_SIZE = Domain(1, 10**12, integer=True)
DIMENSION = Domain(1, 10**9, integer=True)
NOISE_STD = Domain(0.0, 1e15)
MAX_GRAD_NORM = Domain(0.0, 1e15, open_low=True)
SUSCEPTIBILITY = Domain(0.0, 1e12)
WEIGHT = Domain(0.0, 1.0, open_low=True)
RECORDS = Domain(1, 10**6, integer=True)
OPTIONS = Domain(2, 10**12, integer=True)
BIT = Domain(0.0, 1.0)
BITS_PER_VALUE = Domain(1, 1_000, integer=True)
GAMMA = Domain(0.0, 1.0)
DISCRETE_SCALE = Domain(1e-3, 1e9)
DISCRETE_SIGMA = Domain(1e-2, 1e4)
SKELLAM_VARIANCE = Domain(1e-3, 1e7)
REPORTS = Domain(1, 10**9, integer=True)
OTHERS = Domain(0, 10**9, integer=True)
WHOLE_SENSITIVITY = Domain(1, 10_000, integer=True)
SCORE_SCALE = Domain(1e-6, 1e15)
SCORE_SENSITIVITY = Domain(1e-6, 1e15)
POSITIVE_EPSILON = Domain(1e-6, 1e4)
POSITIVES = Domain(1, 10**6, integer=True)
TRIALS = Domain(1, 10**6, integer=True)
FEWEST_TRIALS = Domain(1.0, 1e6)
MEAN_TRIALS = Domain(0.0, 1e6, open_low=True)
TRIAL_SHAPE = Domain(-0.9, 100.0)
TRIAL_PROBABILITY = Domain(0.0, 1.0, open_low=True)
SHIFTS = 256
"""Largest number of shifts of a mixture of Gaussians."""
COMPONENTS = 256
"""Largest number of mechanisms in a composition or a mixture."""


_RESOLVED = {"resolved": True}


def resolved(default: int) -> Any:
    """Return a dataclass field that requests do not have, with the default value `default`.

    The method `AbstractStep.under` sets the value, which depends on the neighbouring relation.
    """
    return field(default=default, metadata=_RESOLVED)


def sent_fields(kind: type[Any]) -> list[str]:
    """Return the names of the fields of the mechanism class `kind` that requests contain."""
    return [each.name for each in fields(kind) if not each.metadata.get("resolved")]


def check_fields(mechanism: object) -> None:
    """Raise OutOfDomain for the first field outside the Domain in its annotation.

    The value None is valid if it is the default of the field. A list is valid if all its items are valid.
    """
    for name, domain in domains(type(mechanism)).items():
        value = getattr(mechanism, name)
        if isinstance(cast("object", value), tuple) and all(item in domain for item in value):
            continue
        if value not in domain and not (value is None and name in _absent(type(mechanism))):
            raise OutOfDomain(name, value, str(domain))


@cache
def domains(kind: type[Any]) -> dict[str, Domain]:
    """Return the declared domain of each numeric field of a mechanism class, by name of the field."""
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, Domain] = {}
    for each in fields(kind):
        for mark in getattr(hints[each.name], "__metadata__", ()):
            if isinstance(mark, Domain):
                found[each.name] = mark
    return found


@cache
def _absent(kind: type[Any]) -> frozenset[str]:
    """Return the names of the fields of a mechanism class that requests do not contain."""
    return frozenset(field.name for field in fields(kind) if field.default is None)
