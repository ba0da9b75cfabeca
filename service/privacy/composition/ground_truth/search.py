"""Searches with a requested number of digits: a curve in doubles guides the search, and balls prove the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

import numpy as np
from flint import arb, ctx

from service.privacy.composition.ground_truth.nodes import out_of_reach
from service.privacy.composition.ground_truth.readings import Balls, Reading, read_epsilon, read_point, read_profile
from service.privacy.composition.ground_truth.sources import Sources, ThresholdSource
from service.privacy.enclosure import EnclosureArray
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.privacy.numerics.balls import ball
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.abstract import AbstractTradeOff

_ATTEMPTS = 4
_LN_2, _LN_10 = math.log(2), math.log(10)
_LARGEST_MEMORY = 512
_GOOD_WIDTH = 1e-6
"""Largest relative width of an enclosure of a threshold whose middle is a good guess."""


@dataclass(frozen=True, slots=True)
class FoundBalls:
    """Balls (midpoint and radius) of one result, computed with a precision of `bits` binary digits."""

    balls: Balls
    bits: int


A_READING: Final = 2_000.0
"""Smallest work of one number, in microseconds."""


@final
class GroundTruthSearch:
    """Search for numbers of one direction of a run with `digits` significant digits; hundreds of points are cached.

    A result has fewer digits if a fixed number of attempts does not reach them. All results are proved enclosures.
    """

    def __init__(self, sources: Sources, guide: AbstractTradeOff, digits: int) -> None:
        """Store the sources of tests and the `guide`, the same curve in doubles; no result relies on the guide.

        `digits` is the number of significant digits that every result aims at.
        """
        self._sources, self._guide, self.digits = sources, guide, digits
        self._points = lru_cache(maxsize=_LARGEST_MEMORY)(self._search_point)

    def point(self, rate: Fraction) -> FoundBalls:
        """Return balls of power, threshold and type II error at a false positive rate in (0, 1).

        The search aims at the digits of both power and type II error. Raises UnsupportedCombination if nothing is
        proved, as `delta` and `epsilon` do.
        """
        return self._points(rate)

    def _search_point(self, rate: Fraction) -> FoundBalls:
        points = self._guide.points(np.array([float(rate)]))
        low, high = float(points.log_slope.lower[0]), float(points.log_slope.upper[0])
        log_value = min(_about(points.power), _about(points.type_two_error))
        good = high - low < _GOOD_WIDTH * max(1.0, abs(low))
        guess = 0.5 * (low + high) if good else self._sources.guess(float(rate))
        if not math.isfinite(guess):
            raise out_of_reach("the search found no threshold near this false positive rate.")
        return self._search(guess, log_value, lambda source, near: read_point(source, rate, near), True)

    def delta(self, epsilon: Fraction) -> FoundBalls:
        """Return a ball of the privacy profile at a finite `epsilon` (nats)."""
        log_value = _about(self._guide.profile(np.array([float(epsilon)])))

        def read(source: ThresholdSource, start: float) -> Reading:
            with ctx.workprec(source.bits):
                return (read_profile(source, ball(epsilon)),), start

        return self._search(float(epsilon), log_value, read, False)

    def epsilon(self, delta: Fraction) -> FoundBalls:
        """Return a ball of the smallest eps >= 0 (nats) with delta(eps) <= delta, for delta in (0, 1).

        Raises UnsupportedCombination if no threshold near delta is known, or nothing is proved.
        """
        near = self._guide.epsilon(float(delta))
        if near.lower <= 0:
            at_zero = self.delta(Fraction(0))
            with ctx.workprec(at_zero.bits):
                if at_zero.balls[0] <= ball(delta):
                    return FoundBalls((arb(0),), at_zero.bits)
        guess = 0.5 * (near.lower + near.upper)
        if not math.isfinite(guess):
            raise out_of_reach("the search found no threshold near this delta.")
        log_value = math.log(delta)
        return self._search(guess, log_value, lambda source, start: read_epsilon(source, delta, start), False)

    def _search(
        self,
        guess: float,
        log_value: float,
        read: Callable[[ThresholdSource, float], Reading],
        complement: bool,
    ) -> FoundBalls:
        """Return balls of one result with enough digits, from several sources of tests whose results are intersected.

        `read` evaluates a source near a threshold. `guess` is a threshold (nats) near the result, and e^log_value the
        size of the result. `complement` is whether power and type II error need the digits. If a fixed number of
        attempts does not reach the digits, or further contours would be too long, the result is the narrowest ball so
        far. Raises UnsupportedCombination if nothing is proved.
        """
        count_work(A_READING)
        nats, best = (self.digits + 2) * _LN_10 + 5, None
        for _ in range(_ATTEMPTS):
            try:
                sources = self._sources.near(guess, log_value, nats)
            except UnsupportedCombination:
                if best is None:
                    raise
                return best
            readings = [(read(source, guess), source.bits) for source in sources]
            known = [best] if best is not None else []
            known += [FoundBalls(balls, bits) for (balls, _), bits in readings if balls is not None]
            if known:
                best = _meet(known)
                missing = self._missing_nats(best, complement)
                if missing <= 0:
                    return best
                guess, log_value = _learned(best, guess, log_value, complement)
                nats += missing + 5
            elif readings[0][0][1] == guess:
                break
            else:
                guess = readings[0][0][1]
                nats += 10
        if best is None:
            raise out_of_reach("the search could not prove a threshold.")
        return best

    def _missing_nats(self, found: FoundBalls, complement: bool) -> float:
        with ctx.workprec(found.bits):
            wanted = found.balls[0::2] if complement else found.balls[:1]
            # A ball that contains 0 has no digits. The missing digits are unknown, so the precision is doubled.
            accuracy = max(min(value.rel_accuracy_bits() for value in wanted), -found.bits)
        return (self.digits + 1) * _LN_10 - accuracy * _LN_2


def _meet(known: list[FoundBalls]) -> FoundBalls:
    """Return the intersection of the balls `known`, which independent computations of one set of numbers gave.

    Raise NumericalFailure if an intersection is empty.
    """
    bits = max(found.bits for found in known)
    with ctx.workprec(bits):
        balls = known[0].balls
        for other in known[1:]:
            try:
                balls = tuple(a.intersection(b) for a, b in zip(balls, other.balls, strict=True))
            except ValueError as error:
                raise NumericalFailure("the enclosures of two contours are disjoint") from error
    return FoundBalls(balls, bits)


def _learned(found: FoundBalls, guess: float, log_value: float, complement: bool) -> tuple[float, float]:
    """Return a threshold (nats) near the result `found`, and ln of the size of the value, for the next attempt.

    `guess` and `log_value` are those of the last attempt, and `complement` says whether the type II error counts.
    """
    with ctx.workprec(found.bits):
        value = found.balls[0].mid()
        if complement:
            guess, value = float(found.balls[1].mid()), value.min(found.balls[2].mid())
        elif len(found.balls) > 1:
            return float(found.balls[0].mid()), log_value
        log = value.log()
        return guess, float(log) if value > 0 and log.is_finite() else log_value - 10


def _about(bounds: EnclosureArray) -> float:
    """Return the approximate logarithm of a probability in `bounds`.

    The result lies between the bounds, or some distance below the upper bound where the lower bound is 0.
    """
    low, high = (
        (math.log(bounds.lower[0]) if bounds.lower[0] > 0 else -math.inf, math.log(max(bounds.upper[0], 5e-324)))
        if bounds.log_lower is None or bounds.log_upper is None
        else (float(bounds.log_lower[0]), float(bounds.log_upper[0]))
    )
    return 0.5 * (low + high) if math.isfinite(low) else max(high, -1e5) - 10
