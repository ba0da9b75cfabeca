"""Guarantees of a run as sentences. Every number is rounded so that the sentence stays true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from service.rendering.numbers import (
    SHOWN,
    format_exact,
    percent_exact,
    percent_up,
    rounded_up,
)

Fields = Mapping[str, Any]


def pair_sentence(epsilon: Fields, delta: float, unit: str, *, delta_is_small: bool) -> str:
    """Return a sentence with the guarantee of epsilon at delta per privacy unit, or that the pair guarantees nothing.

    `epsilon` (nats) has the fields of an answer, and `unit` is the privacy unit in words. `delta_is_small` is False if
    a delta of this size would allow the publication of a record.
    """
    upper = epsilon["upper"]
    if delta == 1:
        return "At delta 1 an (epsilon, delta) pair is no guarantee."
    if upper is None:
        return (
            f"Epsilon at delta {format_exact(delta)} is about {_number(epsilon['value'])}, an approximation without "
            "bounds."
        )
    if math.isinf(upper):
        known = "holds" if epsilon["lower"] == upper else "is known"
        kind = "of pure differential privacy" if delta == 0 else "of the (epsilon, delta) kind"
        return f"No finite epsilon {known} at delta {format_exact(delta)}: there is no guarantee {kind} per {unit}."
    number = _number(upper)
    if not delta_is_small:
        return (
            f"Epsilon is at most {number} at delta {format_exact(delta)} per {unit}. A delta of this size allows the "
            "publication of a record, so the pair guarantees nothing."
        )
    if delta == 0:
        return f"The run is {number}-differentially private (pure differential privacy) per {unit}."
    return f"The run is ({number}, {format_exact(delta)})-differentially private per {unit}."


def power_sentence(rate: float, power: Fields, members: str) -> str:
    """Return a sentence with the share of members that the best attack identifies at the false positive rate `rate`.

    `power` has the fields of the answer, and `members` is "people" or another plural.
    """
    if rate == 0:
        who = f"An attacker who wrongly accuses none of the {members} outside the data"
    else:
        who = f"An attacker who wrongly accuses {percent_exact(rate)} of the {members} outside the data"
    upper = power["upper"]
    if upper is None:
        return (
            f"{who} identifies about {percent_up(power['value'])} of the {members} inside, an estimate without bounds."
        )
    if upper == 0:
        return f"{who} identifies none of the {members} inside."
    if _is_everything(upper):
        return f"{who} may identify all of the {members} inside."
    return f"{who} identifies at most {percent_up(upper)} of the {members} inside."


def reconstruction_sentence(chance: float, gamma: Fields) -> str:
    """Return a sentence on how much a release increases the probability of a reconstruction, from `chance` to gamma.

    `chance` is the probability of success without the release, and `gamma` has the fields of the answer: the largest
    probability with it.
    """
    upper = gamma["upper"]
    who = f"A reconstruction with a chance of {percent_exact(chance)} without the release"
    if upper is None:
        return f"{who} has about {percent_up(gamma['value'])} with it, an estimate without bounds."
    if _is_everything(upper):
        return f"{who} may always succeed with it."
    return f"{who} has at most {percent_up(upper)} with it."


def gdp_sentence(gdp: Fields) -> str:
    """Return a sentence with mu of Gaussian differential privacy, its range of error rates, and its regret."""
    return (
        f"{_number(gdp['mu']['value'])}-Gaussian differential privacy wherever both error rates are at least "
        f"{percent_exact(gdp['smallest_rate'])}, with a regret of at most {_number(gdp['regret']['value'])}."
    )


def _is_everything(upper: float) -> bool:
    return percent_up(upper) == percent_up(1.0)


def _number(value: float) -> str:
    return rounded_up(value, SHOWN)
