"""Which of two trade-off curves is the harder one to attack, and where they cross.

A curve is harder for the attacker where its power is the smaller one, which is where its type II error is the larger
one. Both readings are compared, because each is the sharper one at one end of the curve.
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
    """What enclosures at a list of rates prove about two curves."""

    EQUAL = "equal"
    """Both of the next two."""
    FIRST_IS_HARDER = "first_is_harder"
    """At least as hard at every rate."""
    SECOND_IS_HARDER = "second_is_harder"
    CROSSING = "crossing"
    """Each is surely harder at some rate."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`crossings`: pairs of rates between which the curves change places. `undecided`: at how many rates neither curve
    is known to be at least as hard. `evidence`: that of the weaker curve; where it is asymptotic, approximations were
    compared.
    """

    verdict: Verdict
    crossings: tuple[tuple[float, float], ...]
    undecided: int
    evidence: Evidence


def compare(rates: FloatArray, first: tuple[CurvePoints, Evidence], second: tuple[CurvePoints, Evidence]) -> Comparison:
    """Compare two curves by their enclosures at the same false positive rates, shape (n,), in any order.

    The verdict holds at these rates; the crossings are proved, because both curves are continuous between them.
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
    """Where `harder` surely has a power that is at most, or below, that of `other`."""
    return _ends(relation, harder.power, other.power) | _ends(relation, other.type_two_error, harder.type_two_error)


def _ends(relation: np.ufunc, smaller: EnclosureArray, larger: EnclosureArray) -> BoolArray:
    proved: BoolArray = relation(smaller.upper, larger.lower)
    if smaller.log_upper is not None and larger.log_lower is not None:
        proved = proved | relation(smaller.log_upper, larger.log_lower)
    return proved


def _changes(rates: FloatArray, signs: NDArray[np.int8]) -> tuple[tuple[float, float], ...]:
    """Neighbouring rates, among those with a sign, whose signs differ."""
    order = np.argsort(rates, kind="stable")
    order = order[signs[order] != 0]
    places = np.flatnonzero(signs[order][1:] != signs[order][:-1])
    return tuple((float(rates[order[place]]), float(rates[order[place + 1]])) for place in places)
