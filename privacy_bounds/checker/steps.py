"""Steps of a run: the laws that the checker takes as the definition, in exact rational numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from flint import acb, arb, fmpq

Direction = Literal["add", "remove"]
Terms = list[tuple[arb, arb]]
"""Balls of (w_i, s_i / sigma)."""


class NotDecided(Exception):
    """Raised when a proof is out of reach. The message says why."""


@dataclass(frozen=True)
class Step:
    """`count` equal steps with the pair of laws that the package defines."""

    noise: Fraction
    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    count: int = 1
    mirrored: bool = False

    def __post_init__(self) -> None:
        positive = self.noise > 0 and self.count >= 1 and all(weight > 0 for weight in self.weights)
        if not positive or min(self.shifts) < 0 or sum(self.weights) != 1 or len(self.shifts) != len(self.weights):
            raise ValueError("noise, count and weights must be positive, shifts at least 0, and weights sum to 1")

    @cached_property
    def means(self) -> tuple[Fraction, ...]:
        """Centres s_i / sigma."""
        return tuple(shift / self.noise for shift in self.shifts)

    @cached_property
    def cells(self) -> dict[float, dict[int, tuple[float, float, float]]]:
        """Logarithms of integrands in doubles, by the height of the path and the index of y."""
        return {}

    def moment(self, power: int) -> Fraction:
        """Return m_k = sum_i w_i (s_i / sigma)^k. The moment 0 is P(s = 0), by 0^0 = 1 and without other terms."""
        return sum((w * m**power for w, m in zip(self.weights, self.means, strict=True) if power or not m), Fraction(0))

    def terms(self) -> Terms:
        """Return weights and centres as balls."""
        return [(ball(w), ball(m)) for w, m in zip(self.weights, self.means, strict=True)]


Run = tuple[list[Step], Fraction]
"""Steps with several shifts, and mu^2 of all the plain Gaussian steps together."""


def sampled_step(noise: float, rate: float, count: int = 1, mirrored: bool = False) -> Step:
    """Return `count` Poisson-sampled Gaussian steps with the noise multiplier `noise`. Rate 1 is a plain step."""
    q = Fraction(rate)
    weights, shifts = ((1 - q, q), (Fraction(0), Fraction(1))) if q < 1 else ((q,), (Fraction(1),))
    return Step(Fraction(noise), shifts, weights, count, mirrored)


def split(steps: Sequence[Step]) -> Run:
    """Return the steps with the plain ones combined."""
    plain = (step for step in steps if len(step.shifts) == 1)
    mu_squared = sum((s.count * s.moment(2) * (4 if s.mirrored else 1) for s in plain), Fraction(0))
    return [step for step in steps if len(step.shifts) > 1 and max(step.shifts) > 0], mu_squared


def ball(number: Fraction) -> arb:
    """Return a ball that contains a rational number."""
    return arb(fmpq(number.numerator, number.denominator))


def upper_tail(y: arb) -> arb:
    """Return the normal upper tail Q(y)."""
    return (y / arb(2).sqrt()).erfc() / 2


def log_ratio(terms: Terms, y: acb, analytic: bool = False) -> acb:
    """Return l(y) = ln r(y)."""
    return sum((weight * (m * (y - m / 2)).exp() for weight, m in terms), acb(0)).log(analytic=analytic)


def growth(step: Step, u: arb, eta: float, side: int, start: arb) -> tuple[arb, arb]:
    """Return A and b of section 5 beyond `start` >= 0 on a side of y (1 or -1), for t >= 0."""
    height, slope, largest, never = arb(eta) ** 2 / 2, arb(0), ball(max(step.means)), ball(step.moment(0))
    for exponent, way in [(u, side), (1 - u, -side)][: 2 if step.mirrored else 1]:
        if exponent >= 0:
            slope += exponent * largest if way > 0 else 0
            height += exponent * (log_ratio(step.terms(), acb(start)).real - largest * start) if way > 0 else 0
        elif never > 0:
            height += exponent * never.log()
        else:
            height -= exponent * (ball(step.moment(2)) / 2 - (eta * largest).cos().log())
            slope += exponent * ball(step.moment(1)) * way
    return height, slope


def exponents(step: Step, terms: Terms, y: acb, analytic: bool = False) -> tuple[acb, acb]:
    """Return the logarithm of the integrand of M(z) at z = 0, without a constant factor, and its slope in z."""
    left = log_ratio(terms, -y, analytic) if step.mirrored else acb(0)
    return left - y * y / 2, log_ratio(terms, y, analytic) - left
