"""Readings of a run: the privacy profile, and the largest power at a false positive rate."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import acb, arb, ctx

from privacy_bounds.checker.contour import Contour
from privacy_bounds.checker.guide import Guide, minimise
from privacy_bounds.checker.steps import Direction, NotDecided, Step, Terms, ball, log_ratio, split, upper_tail


def _as_one_step(steps: Sequence[Step]) -> tuple[Terms, bool] | None:
    # None: several steps of which one is not plain Gaussian
    sampled, mu_squared = split(steps)
    if not sampled:
        return [(arb(1), ball(mu_squared).sqrt())], False
    is_one = not mu_squared and len(sampled) == 1 and sampled[0].count == 1
    return (sampled[0].terms(), sampled[0].mirrored) if is_one else None


def profile(steps: Sequence[Step], direction: Direction, near: float, nats: int) -> Callable[[arb], arb]:
    """Return a function that encloses the privacy profile delta(eps) of a run in a ball, with eps in nats.

    Near eps = `near` the radii aim at an absolute error of e^-`nats`. `direction` is "add" or "remove". If `near` is
    beyond the extreme loss of a run that never samples the record, the function is a closed form there, and NaN on the
    other side of this loss.
    """
    sampled, mu_squared = split(steps)
    if not (mu_squared or any(step.mirrored or not step.moment(0) for step in sampled)):
        least = sum((step.count * ball(step.moment(0)).log() for step in sampled), arb(0))
        sign = 1 if direction == "add" else -1
        if sign * arb(near) <= least:
            return lambda eps: arb("nan") if not sign * eps <= least else 1 - eps.exp() if sign > 0 else arb(0)
    direction = "add" if all(step.mirrored for step in sampled) else direction
    one = _as_one_step(steps)
    if one is not None:
        return lambda eps: _delta_of_one(*one, direction, eps)
    return Contour(Guide((sampled, mu_squared), direction, near, nats)).delta


def largest_power(steps: Sequence[Step], direction: Direction, alpha: Fraction, nats: int) -> arb:
    """Return a ball with the largest power at the false positive rate `alpha`, from three values of the profile.

    `direction` is "add" or "remove". The profile aims at an absolute error of e^-`nats`. A run that is one step
    needs no profile. The ball may be wide: from 0 to an upper bound.
    """
    if alpha in (0, 1):
        return ball(alpha)
    one = _as_one_step(steps)
    if one is not None:
        return _power_of_one(*one, direction, ball(alpha))
    (point, spread), rate = Guide(split(steps), direction).threshold(-math.log(alpha)), float(alpha)
    gap = math.exp(-nats / 3) * min(1.0, spread)
    while True:
        read, centre, spread = profile(steps, direction, point, nats), point, 1.5 * spread
        point = minimise(lambda c, f=read: float(rate * arb(c).exp() + f(arb(c))), centre, spread / 2, 40, 4)
        if abs(point - centre) < spread / 2:
            break
    logs = [arb(point) + k * arb(gap) for k in (-1, 0, 1)]
    (e0, e1, e2), (f0, f1, f2) = [c.exp() for c in logs], [ball(alpha) * c.exp() + read(c) for c in logs]
    least = f1 - arb.max((f2 - f1) * (e1 - e0) / (e2 - e1), (f0 - f1) * (e2 - e1) / (e1 - e0))
    return (least if f1 <= f0 and f1 <= f2 else arb(0)).union(f1)


def _delta_of_one(terms: Terms, mirrored: bool, direction: Direction, eps: arb) -> arb:
    # The best test has the threshold y* at which the loss is eps, or -eps for the direction remove of a step that is
    # not mirrored. A mirrored step has the negated shifts without the record.
    sign = 1 if direction == "add" or mirrored else -1

    def loss(y: arb) -> arb:
        return (log_ratio(terms, acb(y)) - (log_ratio(terms, acb(-y)) if mirrored else 0)).real

    with ctx.workprec(2 * ctx.prec + 64):
        p, q = _masses_beyond(terms, mirrored, sign, _bisect_root(loss, sign * eps))
        return p - eps.exp() * q if sign > 0 else q - eps.exp() * p


def _power_of_one(terms: Terms, mirrored: bool, direction: Direction, alpha: arb) -> arb:
    sign, null = (1, 1) if direction == "add" or mirrored else (-1, 0)

    def rate(y: arb) -> arb:
        return -sign * _masses_beyond(terms, mirrored, sign, y)[null]

    with ctx.workprec(2 * ctx.prec + 64):
        return _masses_beyond(terms, mirrored, sign, _bisect_root(rate, -sign * alpha))[1 - null]


def _masses_beyond(terms: Terms, mirrored: bool, sign: int, y: arb) -> tuple[arb, arb]:
    # masses beyond y with the record (P) and without it (Q)
    p = sum((w * upper_tail(sign * (y - m)) for w, m in terms), arb(0))
    q = sum((w * upper_tail(y + m) for w, m in terms), arb(0)) if mirrored else upper_tail(sign * y)
    return p, q


def _bisect_root(rising: Callable[[arb], arb], value: arb) -> arb:
    # the signs at both ends of the ball are proved
    low, high = arb(-1), arb(1)
    while not (rising(low) < value < rising(high)):
        low, high = 2 * low, 2 * high
        if high > 2**120:
            raise NotDecided("the threshold of the best test was not found")
    for _ in range(ctx.prec):
        middle = (low + (high - low) * 0.4876).mid()  # no dyadic number, on which an exact root could lie
        found = rising(middle)
        if not (found < value or found > value):
            break
        low, high = (middle, high) if found < value else (low, middle)
    return low.union(high)
