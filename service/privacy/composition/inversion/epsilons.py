"""Epsilon of a run at a given delta.

The root of the profile on one contour is proved from both sides. Otherwise epsilon is enclosed by bisection.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.direction_contours import EVIDENCE, HOPELESS, DirectionContours
from service.privacy.composition.inversion.epsilon_caps import epsilon_cap
from service.privacy.composition.inversion.evaluation import evaluate_profile, straight_profile
from service.privacy.composition.inversion.readings.roots import prove_root, solve_profile
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.work import is_spent

_ROUNDS, _FEW_ROUNDS = 60, 20
"""Rounds of a bisection for an epsilon. Few suffice where the transform decays on no contour: all numbers are wide."""

_LARGEST_EPSILON = 1e24
"""Nats beyond which no upper bound is searched for. The bound for Gaussian steps without sampling is about mu^2/2."""

_SHARED = 0.1
"""Share of a good width above which a root on the shared contour is also solved on its best contour."""

_CLOSE = 1e-12
"""Relative width at which a bisection ends."""

_MANY_NODES = 256
"""Number of nodes several times that of a contour without rare jumps."""


@np.errstate(all="ignore")
def evaluate_epsilon(contours: DirectionContours, delta: float) -> Enclosure:
    """Return an enclosure of the smallest eps >= 0 with delta(eps) <= `delta`, for `delta` in (0, 1).

    `contours` are those of one direction of a run, whose privacy profile is delta(eps). The enclosure is in nats.
    """
    if _advantage_cap(contours) <= delta:
        return Enclosure(0.0, 0.0, EVIDENCE)
    far = _far_epsilon(contours, delta)
    if far is not None and far.relative_width() <= contours.accuracy.deformed:
        return far
    found = _evaluate_on_contours(contours, delta)
    return found if far is None else found.intersected(far)


def _advantage_cap(contours: DirectionContours) -> float:
    """Return an upper bound of the advantage delta(0) of a run of sampled Gaussian steps; infinity for other runs.

    The advantage of a run is at most the sum over its steps. That of a step of rate p is p (2 Phi(mu/2) - 1), where mu
    is the distance of its shifts. `contours` are the contours of one direction of the run.
    """
    steps = contours.run.sampled_steps
    if not steps or contours.run.gaussian_mu_squared > 0:
        return math.inf
    distances = ((step.count * step.rate, (1 + step.mirrored) / step.sigma) for step in steps)
    return math.fsum(uses * math.erf(mu / math.sqrt(8)) for uses, mu in distances) * (1 + 1e-12)


def _far_epsilon(contours: DirectionContours, delta: float) -> Enclosure | None:
    """Return an enclosure of epsilon (nats) if one rare large loss of a step determines `delta`, or None.

    `contours` are the contours of one direction of the run. The result is None if delta is not tiny, other steps may
    matter (`DirectionContours.is_far`), or no bounds are proved.
    """
    step = contours.jumping_step
    if step is None:
        return None
    from service.privacy.composition.inversion.rare_jumps.roots import enclosed_root, jump_epsilon

    if is_spent() or not contours.is_far(jump_epsilon(step, delta)):
        return None
    proved = enclosed_root(step, delta, contours.far_profile)
    return None if proved is None else Enclosure(*proved, EVIDENCE)


def _evaluate_on_contours(contours: DirectionContours, delta: float) -> Enclosure:
    if not contours.deforms_first:
        return _straight_first(contours, delta, tried=False)
    found = _on_deformed_contours(contours, delta, Enclosure(0.0, math.inf, EVIDENCE))
    if found is not None and found.relative_width() <= contours.accuracy.deformed:
        return found
    if found is None and _is_zero(contours, delta):
        return Enclosure(0.0, 0.0, EVIDENCE)
    straight = _straight_first(contours, delta, tried=True)
    return straight if found is None else straight.intersected(found)


def _straight_first(contours: DirectionContours, delta: float, *, tried: bool) -> Enclosure:
    """Return epsilon (nats) at `delta` by straight contours; deformed contours serve where these enclosures are wide.

    `tried` is whether deformed contours were tried before.
    """
    best: Enclosure | None = None
    wide, rounds = contours.accuracy.deformed, _FEW_ROUNDS
    order = contours.run.levels(delta, abs(float(ndtri(delta))))
    for attempt, level in enumerate(order):
        if is_spent():
            break
        tilt_grid = contours.tilt_grid(TRUNCATION_DIGITS[level])
        if tilt_grid is None:
            continue
        tilt = tilt_grid.for_delta(delta)
        if not contours.neighbours_may_help(tilt):
            rounds = _FEW_ROUNDS
            break
        rounds = _ROUNDS if tilt.contour.has_decayed.all() else rounds
        found = epsilon_on_contour(tilt_grid, tilt, delta, contours.good_width)
        if contours.run.is_straight and (found is None or found.relative_width() > wide):
            # A contour nearer to 0 is short, and loses more digits to cancellation. It helps where rare jumps decide.
            near, deltas = tilt_grid.near_core(tilt.theta), np.array([delta])
            nearer = None if near is None else _proved(near, solve_profile(near.contour, deltas), deltas)
            found = nearer if found is None or nearer is None else found.intersected(nearer)
        if found is not None:
            best = found if best is None else best.intersected(found)
            # Jumps to several shifts make a contour long. A deeper level has more jumps and a longer contour.
            long = contours.run.is_straight and tilt.contour.nodes > _MANY_NODES
            if best.relative_width() <= (wide if long else contours.good_width):
                return best
        hopeless = attempt >= min(1, len(order) - 1) and (best is None or best.relative_width() > HOPELESS)
        if hopeless and contours.deformed is not None and not tried:
            tried = True
            bounded = best or Enclosure(0.0, epsilon_cap(contours, delta), EVIDENCE)
            found = _on_deformed_contours(contours, delta, bounded) if bounded.upper < math.inf else None
            if found is not None and found.relative_width() <= wide:
                return found
    if best is None:
        best = _by_bisection(contours, delta, min(rounds, _FEW_ROUNDS) if is_spent() else rounds)
    if best.relative_width() > wide and contours.deformed is not None and best.upper > 0 and not is_spent():
        best = _on_deformed_contours(contours, delta, best) or best
    return best


def _on_deformed_contours(contours: DirectionContours, delta: float, known: Enclosure) -> Enclosure | None:
    """Return the enclosure of epsilon (nats) at `delta` by deformed contours, intersected with `known`.

    The result is None if the run has no deformed contours, or they prove no bounds.
    """
    proved = None if contours.deformed is None else contours.deformed.epsilon(delta, known.lower, known.upper)
    return None if proved is None else known.intersected(Enclosure(*proved, EVIDENCE))


def epsilon_on_contour(tilt_grid: TiltGrid, tilt: Tilt, delta: float, good_width: float) -> Enclosure | None:
    """Return the root eps > 0 of delta(eps) = `delta` in nats, proved from both sides on one contour of a run.

    delta(eps) is the privacy profile of the run. The search begins on the contour at `tilt`, as from
    `TiltGrid.for_delta`. The best contour of `tilt_grid` for the root found proves the root, where `tilt` is too far
    away. The best contour also serves where the enclosure is wider than a share of `good_width` (relative). The result
    is None where no root is found or the proof fails.
    """
    deltas = np.array([delta])
    threshold = solve_profile(tilt.contour, deltas)
    if not 0 < threshold[0] < math.inf:
        return None
    nearest = tilt_grid.for_root(tilt, float(threshold[0]))
    if nearest is not tilt:
        tilt, threshold = nearest, solve_profile(nearest.contour, deltas)
    found = _proved(tilt, threshold, deltas)
    if 0 < threshold[0] < math.inf and (found is None or found.relative_width() > _SHARED * good_width):
        best = tilt_grid.for_thresholds(threshold, shared=False)[0]
        if best is not tilt and best.theta > 0:
            other = _proved(best, solve_profile(best.contour, deltas), deltas)
            return other if found is None else found if other is None else found.intersected(other)
    return found


def _proved(tilt: Tilt, threshold: FloatArray, deltas: FloatArray) -> Enclosure | None:
    """Return an enclosure of epsilon (nats) around an approximate root of a run's privacy profile, or None.

    `threshold` and `deltas` have the shape (1,): the approximate root in nats, and the value of delta that the profile
    should have there. The contour of `tilt` gives the profile. The result is None where the root is not positive and
    finite, or the proof fails.
    """
    if not 0 < threshold[0] < math.inf:
        return None
    lower, upper = prove_root(tilt.contour, threshold, deltas)
    return None if math.isnan(lower[0]) else Enclosure(float(lower[0]), float(upper[0]), EVIDENCE)


def _is_zero(contours: DirectionContours, delta: float) -> bool:
    """Return whether epsilon is proved to be 0: the profile's largest value, delta(0), is at most `delta`.

    `contours` are the contours of one direction of the run.
    """
    return bool(evaluate_profile(contours, np.zeros(1)).upper[0] <= delta)


def _by_bisection(contours: DirectionContours, delta: float, rounds: int) -> Enclosure:
    """Return an enclosure of epsilon (nats) at `delta` by a bisection for each bound, of at most `rounds` halvings.

    Each step encloses the profile at one epsilon by straight contours. The upper bound is infinite if no epsilon up to
    a limit is proved to be large enough.
    """
    log_delta = math.log(delta)
    slack = 1e-15 * (1 + abs(log_delta))

    def is_proved(epsilon: float) -> bool:
        """Return whether delta(`epsilon`), the privacy profile, is proved to be at most the given delta."""
        return straight_profile(contours, epsilon)[1] <= log_delta - slack

    def is_possible(epsilon: float) -> bool:
        """Return whether delta(`epsilon`), the privacy profile, is not proved to exceed the given delta."""
        return straight_profile(contours, epsilon)[0] <= log_delta + slack

    if _is_zero(contours, delta):
        return Enclosure(0.0, 0.0, EVIDENCE)
    high = 1e-12
    while not is_proved(high):
        high *= 16
        if high > _LARGEST_EPSILON:
            return Enclosure(0.0, math.inf, EVIDENCE)
    upper = bisected(is_proved, 0.0, high, rounds, relative=_CLOSE)[1]
    return Enclosure(bisected(is_possible, 0.0, upper, rounds, relative=_CLOSE)[0], upper, EVIDENCE)
