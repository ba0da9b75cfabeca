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
    """Steps of a run with one pair of laws, `count` of them, in exact rational numbers.

    Without the record an outcome has the law N(0, 1), and with it sum_i w_i N(s_i/sigma, 1) for the `weights` w_i,
    `shifts` s_i and noise sigma. Raise ValueError unless noise, count and weights are positive, shifts at least 0, and
    the weights sum to 1. A `mirrored` step has the mirror image of the mixture in place of N(0, 1).
    """

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
        """Centres s_i/sigma of the components: shifts over the noise."""
        return tuple(shift / self.noise for shift in self.shifts)

    @cached_property
    def cells(self) -> dict[float, dict[int, tuple[float, float, float]]]:
        """Cache of (start, Re slope, Im slope), the values of `exponents` in doubles.

        The keys are the height eta of the path and the index j of the outcome y = j h + i eta, where h is the distance
        of outcomes. A `Guide` fills the cache, and nothing is proved from the values.
        """
        return {}

    def moment(self, power: int) -> Fraction:
        """Return the moment m_k = sum_i w_i (s_i/sigma)^k of the centres, for k = `power`.

        Exception: for k = 0 only shifts of 0 count, so that the result is their weight.
        """
        return sum((w * m**power for w, m in zip(self.weights, self.means, strict=True) if power or not m), Fraction(0))

    def terms(self) -> Terms:
        """Return (weight, centre) of each component as balls."""
        return [(ball(w), ball(m)) for w, m in zip(self.weights, self.means, strict=True)]


Run = tuple[list[Step], Fraction]
"""Steps with several shifts, and mu^2 of all the plain Gaussian steps together."""


def sampled_step(noise: float, rate: float, count: int = 1, mirrored: bool = False) -> Step:
    """Return `count` Poisson-sampled Gaussian steps with the noise multiplier `noise`. Rate 1 is a plain step.

    `mirrored` is that of `Step`.
    """
    q = Fraction(rate)
    weights, shifts = ((1 - q, q), (Fraction(0), Fraction(1))) if q < 1 else ((q,), (Fraction(1),))
    return Step(Fraction(noise), shifts, weights, count, mirrored)


def split(steps: Sequence[Step]) -> Run:
    """Return the sampled steps, and mu^2 of all plain Gaussian steps together (0 without any).

    A step is plain if it has one shift. Steps whose shifts are all 0 are left out, because they reveal nothing.
    """
    plain = (step for step in steps if len(step.shifts) == 1)
    mu_squared = sum((s.count * s.moment(2) * (4 if s.mirrored else 1) for s in plain), Fraction(0))
    return [step for step in steps if len(step.shifts) > 1 and max(step.shifts) > 0], mu_squared


def ball(number: Fraction) -> arb:
    """Return a ball (number with an error bound) that contains a rational number."""
    return arb(fmpq(number.numerator, number.denominator))


def upper_tail(y: arb) -> arb:
    """Return the upper tail P(x > y) of the standard normal law as a ball."""
    return (y / arb(2).sqrt()).erfc() / 2


def log_ratio(terms: Terms, y: acb, analytic: bool = False) -> acb:
    """Return l(y) = ln r(y), the log likelihood ratio of a mixture of normal laws to N(0, 1) at the complex outcome y.

    `terms` has (weight, centre) of each component. With `analytic`, the result is not finite where the logarithm is not
    analytic.
    """
    return sum((weight * (m * (y - m / 2)).exp() for weight, m in terms), acb(0)).log(analytic=analytic)


def growth(step: Step, u: arb, eta: float, side: int, start: arb) -> tuple[arb, arb]:
    """Return (A, b): the integrand of B(u, t, `eta`) is at most phi(y) e^{A + b|y|} for |y| >= `start` on one side.

    The side is the right (`side` 1) or the left (-1). The bound holds for all t >= 0, and phi is the normal density.
    Section 5 of the proof in the package docstring derives it.
    """
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
    """Return (a, b): the integrand of M(z) at the complex outcome y is e^{a + z b}/sqrt(2 pi).

    M(z) = E e^{zL} is the transform of the loss L of `step` without the record. `terms` has (weight, centre) of each
    component of the step. With `analytic`, the result is not finite where the logarithm is not analytic.
    """
    left = log_ratio(terms, -y, analytic) if step.mirrored else acb(0)
    return left - y * y / 2, log_ratio(terms, y, analytic) - left
