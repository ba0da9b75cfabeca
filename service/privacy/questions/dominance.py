"""Comparison of two trade-off curves: the curve that is harder to attack, and the crossings of both.

A curve is harder to attack at a rate where its power is smaller, which means that its type II error is larger. The
comparison uses both numbers, because the power is more accurate at one side of the curve and the error at the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from service.privacy.enclosure import EnclosureArray, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.trade_off.abstract import CurvePoints


class Verdict(StrEnum):
    """Relation of two trade-off curves that their bounds prove at a list of false positive rates."""

    EQUAL = "equal"
    """Each curve is at least as hard as the other at every rate."""
    FIRST_IS_HARDER = "first_is_harder"
    """The first curve is at least as hard at every rate."""
    SECOND_IS_HARDER = "second_is_harder"
    CROSSING = "crossing"
    """Each curve is surely harder at some rate."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison of two curves.

    Attributes
    ----------
    verdict : Verdict
        The relation at the given rates.
    crossings : tuple of (float, float)
        Pairs of neighbouring rates between which the order of the curves changes.
    undecided : int
        Count of rates at which neither curve is proved to be at least as hard to attack as the other.
    evidence : Evidence
        The weaker evidence of the two curves. With `ASYMPTOTIC` the comparison is one of approximations.
    """

    verdict: Verdict
    crossings: tuple[tuple[float, float], ...]
    undecided: int
    evidence: Evidence


def compare(rates: FloatArray, first: tuple[CurvePoints, Evidence], second: tuple[CurvePoints, Evidence]) -> Comparison:
    """Compare two curves by their enclosures at the same false positive rates.

    Parameters
    ----------
    rates : array of shape (n,)
        False positive rates, in any order.
    first, second : (CurvePoints, Evidence)
        Points of both curves at `rates`, and the evidence of each curve.

    Returns
    -------
    Comparison
        The verdict holds at these rates. The crossings are proved, because both curves are continuous between the given
        rates.
    """
    (a, a_evidence), (b, b_evidence) = first, second
    evidence = Evidence.weakest(a_evidence, b_evidence)
    if a is b:  # the directions of a symmetric mechanism are one curve
        return Comparison(Verdict.EQUAL, (), 0, evidence)
    first_harder = _proved(np.less_equal, a, b)
    second_harder = _proved(np.less_equal, b, a)
    signs = _proved(np.less, a, b).astype(np.int8) - _proved(np.less, b, a).astype(np.int8)
    crossings = _changes(rates, signs)
    if first_harder.all():
        verdict = Verdict.EQUAL if second_harder.all() else Verdict.FIRST_IS_HARDER
    elif second_harder.all():
        verdict = Verdict.SECOND_IS_HARDER
    else:
        verdict = Verdict.CROSSING if crossings else Verdict.UNDECIDED
    undecided = ~first_harder & ~second_harder
    return Comparison(verdict, crossings, int(undecided.sum()), evidence)


def _proved(relation: np.ufunc, harder: CurvePoints, other: CurvePoints) -> BoolArray:
    """Return a mask of the rates at which `relation` is proved to hold between two curves.

    `relation` is less, or less-or-equal, for the power of `harder` and the power of `other`. A relation is proved if it
    holds between the upper bound of the first and the lower bound of the second.
    """
    return _ends(relation, harder.power, other.power) | _ends(relation, other.type_two_error, harder.type_two_error)


def _ends(relation: np.ufunc, smaller: EnclosureArray, larger: EnclosureArray) -> BoolArray:
    proved: BoolArray = relation(smaller.upper, larger.lower)
    if smaller.log_upper is not None and larger.log_lower is not None:
        proved = proved | relation(smaller.log_upper, larger.log_lower)
    return proved


def _changes(rates: FloatArray, signs: NDArray[np.int8]) -> tuple[tuple[float, float], ...]:
    """Return the pairs of neighbouring `rates` whose `signs` differ, without rates of sign 0.

    A sign is 1 where the first of two curves is proved to be harder to attack, -1 where the second is, and else 0.
    """
    order = np.argsort(rates, kind="stable")
    order = order[signs[order] != 0]
    places = np.flatnonzero(signs[order][1:] != signs[order][:-1])
    return tuple((float(rates[order[place]]), float(rates[order[place + 1]])) for place in places)
