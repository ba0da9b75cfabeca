"""A mixture of shifted Gaussians with the weights that it has, not with doubles near them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from flint import arb, ctx

from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.mechanisms.batches.shift_laws import BinomialHits, HypergeometricHits, ShiftLaw, StatedWeights
from service.privacy.numerics.balls import GUARD_BITS, ball


@final
@dataclass(frozen=True, slots=True)
class ExactMixture:
    """N(0, 1) against sum w_i N(s_i/sigma, 1), or with `mirrored` the mirror image of that against it.

    `shifts` are those with a weight of their own; what a law has beside them is `dropped`, that is, its mass is put to
    the heaviest shift.
    """

    noise_multiplier: Fraction
    law: ShiftLaw
    shifts: tuple[float, ...]
    mirrored: bool

    @staticmethod
    def of(part: GaussianMixturePart) -> ExactMixture | None:
        """None where the part does not say what its doubles are near to."""
        if part.exact is None:
            return None
        law, shifts = part.exact.law, part.shifts
        if isinstance(law, BinomialHits) and len(shifts) <= law.trials:
            shifts = shifts[:-1]  # it stood for all hits that are too rare for a place
        return ExactMixture(part.exact.noise_multiplier, law, shifts, part.mirrored)

    @property
    def log_silent(self) -> arb | None:
        """ln of the weight of shift 0; None without one, or where both hypotheses are shifted."""
        if self.mirrored:
            return None
        if isinstance(self.law, BinomialHits):
            return self.law.trials * (-ball(self.law.rate)).log1p()
        return self.weights()[0].log() if self.shifts[0] == 0 else None

    @property
    def largest_shift(self) -> Fraction:
        """In units of the noise, whatever its weight."""
        largest = Fraction(self.shifts[-1])
        if isinstance(self.law, BinomialHits):
            largest = self.law.trials * Fraction(self.law.apart)
        return largest / self.noise_multiplier

    def weights(self) -> list[arb]:
        """Those of the shifts, at the precision in force."""
        if isinstance(self.law, StatedWeights):
            return [ball(weight) for weight in self.law.weights]
        hits = [round(shift / self.law.apart) for shift in self.shifts]
        if isinstance(self.law, BinomialHits):
            found = _binomial(self.law, hits)
            rest = self.dropped
            if not rest.is_zero():  # is put where it counts least
                most = max(range(len(hits)), key=lambda at: float(found[at].mid()))
                found[most] += rest.union(arb(0))
            return found
        known = _hypergeometric(self.law)
        return [known[number] for number in hits]

    def distances(self) -> list[arb]:
        """s_i/sigma, at the precision in force."""
        return [ball(Fraction(shift) / self.noise_multiplier) for shift in self.shifts]

    @property
    def dropped(self) -> arb:
        """Beyond the last and before the first of the hits that are kept the weights fall faster than geometrically."""
        law = self.law
        if not isinstance(law, BinomialHits) or len(self.shifts) > law.trials:
            return arb(0)
        with ctx.workprec(GUARD_BITS):
            odds = ball(law.rate / (1 - law.rate))
            first, last = (round(self.shifts[at] / law.apart) for at in (0, -1))
            total, after = arb(0), last + 1
            if last < law.trials:
                ratio = odds * (law.trials - after) / (after + 1)
                total += _binomial(law, [after])[0] / (1 - ratio) if ratio < 1 else arb(1)
            if first > 0:
                ratio = (first - 1) / (odds * (law.trials - first + 2))
                total += _binomial(law, [first - 1])[0] / (1 - ratio) if ratio < 1 else arb(1)
            return total.upper()


def _binomial(law: BinomialHits, hits: list[int]) -> list[arb]:
    """C(n, i) q^i (1 - q)^{n - i}."""
    with ctx.workprec(ctx.prec + law.trials.bit_length() + 40):
        hit, miss = ball(law.rate).log(), (-ball(law.rate)).log1p()
        return [math.comb(law.trials, i) * (i * hit + (law.trials - i) * miss).exp() for i in hits]


def _hypergeometric(law: HypergeometricHits) -> list[arb]:
    """C(k, i) C(n - k, b - i)/C(n, b), each from the one before; b and k may change places, so that k <= b."""
    b, k, n = max(law.drawn, law.marked), min(law.drawn, law.marked), law.among
    with ctx.workprec(ctx.prec + 40):
        weight = arb(1)
        for other in range(k):
            weight = weight * (n - b - other) / (n - other)
        found = [weight]
        for i in range(k):
            weight = weight * ((k - i) * (b - i)) / ((i + 1) * (n - k - b + i + 1))
            found.append(weight)
        return found
