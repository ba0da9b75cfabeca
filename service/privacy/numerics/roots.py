"""Root finders for a single function and for arrays of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.work import count_work

A_ROUND, A_PLACE = 50.0, 0.05
"""Work of a round of a search without the evaluations, and of each of its points, in microseconds, roughly."""
MOST_ROUNDS = 100
PRECISION = 2.0**-51
NEWTON_STEPS = 60
SECTIONS = 129


def bracketed_roots(function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Find a root of each function between its `low` and `high`, where its signs differ.

    Parameters
    ----------
    function : callable
        Evaluates all functions at an array of points, one point each.
    low, high : array
        Endpoints of the brackets.

    Returns
    -------
    array
        Roots, accurate to two units in the last place of the root or of the width of the bracket, whichever is larger.
        Without a change of sign the result is the endpoint with the smaller absolute value.

    Notes
    -----
    Chandrupatla's method uses inverse quadratic interpolation where that is safe, and bisection elsewhere.

    References
    ----------
    Scherer 2010, Computational Physics, section 6.1.7.3.
    """
    first, second = high, low
    at_first, at_second = function(first), function(second)
    share, span = np.full_like(low, 0.5), high - low
    lost = np.sign(at_first) == np.sign(at_second)
    nearer = np.where(np.abs(at_first) < np.abs(at_second), first, second)
    for _ in range(MOST_ROUNDS):
        count_work(A_ROUND + A_PLACE * first.size)
        point = first + share * (second - first)
        value = function(point)
        same = np.sign(value) == np.sign(at_first)
        third, at_third = np.where(same, first, second), np.where(same, at_first, at_second)
        second, at_second = np.where(same, second, first), np.where(same, at_second, at_first)
        first, at_first = point, value
        best = np.where(np.abs(at_first) < np.abs(at_second), first, second)
        width = np.abs(second - first)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.minimum(PRECISION * np.maximum(np.abs(best), span) / width, 0.5)
            if ((least >= 0.5) | (at_first == 0) | lost).all():
                break
            position = (first - second) / (third - second)
            height = (at_first - at_second) / (at_third - at_second)
            safe = (height**2 < position) & ((1 - height) ** 2 < 1 - position)
            curved = at_first / (at_second - at_first) * at_third / (at_second - at_third) + (third - first) / (
                second - first
            ) * at_first / (at_third - at_first) * at_second / (at_third - at_second)
        share = np.clip(np.where(safe, curved, 0.5), least, 1 - least)
    return np.where(lost, nearer, np.where(np.abs(at_first) < np.abs(at_second), first, second))


def bisected(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    rounds: int,
    *,
    close: float = 0.0,
    relative: float = 0.0,
    between: Callable[[float, float], float] = lambda low, high: 0.5 * (low + high),
) -> tuple[float, float]:
    """Return the bracket of the point from which a condition holds, after `rounds` bisections of [low, high].

    Parameters
    ----------
    holds : callable
        The condition. It is false at the first result (or the first result is `low`) and true at the second (or the
        second is `high`).
    low, high : float
        Endpoints; `low` may be the larger number.
    rounds : int
        Largest number of bisections.
    close, relative : float
        The search stops early once the endpoints differ by less than `close`, or by at most `relative` times the second
        endpoint.
    between : callable
        Point that splits a bracket; by default the arithmetic mean.

    Returns
    -------
    (float, float)
        Endpoints of the bracket of the point from which the condition holds.
    """
    for _ in range(rounds):
        middle = between(low, high)
        low, high = (low, middle) if holds(middle) else (middle, high)
        if abs(high - low) < close or abs(high - low) <= relative * abs(high):
            break
    return low, high


def many_bisected(
    holds: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray, rounds: int
) -> tuple[FloatArray, FloatArray]:
    """Bisect many brackets at once.

    Parameters
    ----------
    holds : callable
        Conditions at an array of points, one point each. False at the first result (or the first result is `low`) and
        true at the second (or the second is `high`).
    low, high : array
        Endpoints of the brackets, of one shape.
    rounds : int
        Number of bisections.

    Returns
    -------
    (array, array)
        Endpoints of the brackets of the points from which the conditions hold.
    """
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        above = holds(middle)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low, high


def sectioned(
    holds: Callable[[FloatArray], BoolArray],
    low: FloatArray,
    high: FloatArray,
    rounds: int,
    *,
    relative: float = 0.0,
    sections: int = SECTIONS,
) -> tuple[FloatArray, FloatArray]:
    """Bracket the points from which n conditions hold, for conditions that cost little at many points.

    Parameters
    ----------
    holds : callable
        The conditions at an array of points, shape (n, sections), one row each.
    low, high : array, shape (n,)
        Endpoints of the brackets, in this order.
    rounds : int
        Largest number of rounds.
    relative : float
        The search stops once the endpoints differ by at most `relative` times the second endpoint.
    sections : int
        Number of points of a round in each bracket, including the endpoints.

    Returns
    -------
    (array, array)
        Endpoints of the brackets, shape (n,). A condition is false at the first and true at the second. Both are `low`
        where the condition holds there. Where the condition holds at no point of the first round, the first is `low`
        and the second infinite.
    """
    known = np.zeros(len(low), dtype=bool)
    for _ in range(rounds):
        points = np.linspace(low, high, sections, axis=-1)
        held = holds(points)
        known |= held.any(axis=1)
        first = held.argmax(axis=1)[:, None]
        low, high = (np.take_along_axis(points, at, axis=1)[:, 0] for at in (np.maximum(first - 1, 0), first))
        if (~known | (high - low <= relative * np.abs(high))).all():
            break
    return low, np.where(known, high, np.inf)


def falling_roots(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    first: FloatArray,
    last: FloatArray,
    close: float,
) -> tuple[FloatArray, FloatArray]:
    """Find approximate roots of decreasing functions on [0, 1] by Newton's method within a bracket.

    Parameters
    ----------
    function : callable
        Returns values and derivatives at an array of points.
    first, last : array
        Values at 0 and at 1.
    close : float
        Values within `close` of 0 end the search.

    Returns
    -------
    root, slope : arrays
        Approximate roots, and the derivatives at the points before the last step. Without a change of sign the root is
        about 0 or 1.
    """
    low, high = np.zeros_like(first), np.ones_like(first)
    chord = first / (first - last)
    share, slope = np.where(np.isfinite(chord), chord, 0.5), np.full_like(first, -1.0)
    for _ in range(NEWTON_STEPS):
        count_work(A_ROUND + A_PLACE * share.size)
        value, slope = function(share)
        low, high = np.where(value > 0, share, low), np.where(value > 0, high, share)
        moved = share - value / slope
        inside = (moved >= low) & (moved <= high)
        following = np.where(inside, moved, 0.5 * (low + high))
        done = (np.abs(value) <= close) | (high - low <= PRECISION)
        share = following
        if done.all():
            break
    return share, slope


def lowest(function: Callable[[float], float], bottom: float, top: float, close: float) -> float:
    """Return about the point where a function is smallest.

    Parameters
    ----------
    function : callable
        If it has several minima, the result may be near any of them.
    bottom, top : float
        Endpoints of the search.
    close : float
        Distance of the result from a minimum.

    Returns
    -------
    float
        A point between the endpoints.
    """
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(function, bounds=(bottom, top), method="bounded", options={"xatol": close})
    return float(found.x)
