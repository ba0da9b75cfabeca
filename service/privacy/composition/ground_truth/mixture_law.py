"""Mixture of shifted Gaussians with exact weights, which doubles only approximate."""

from __future__ import annotations

from fractions import Fraction
from typing import final

from flint import arb, ctx

from service.privacy.mechanisms.batches.shift_laws import ExactShifts
from service.privacy.numerics.balls import GUARD_BITS, ball

EXTRA_BITS = 40


@final
class ExactMixture(ExactShifts):
    """Pair of H0 = N(0, 1) and H1 = sum w_i N(s_i/sigma, 1); with `mirrored`, H0 is the mirror image of H1.

    s_i are the shifts and sigma is `noise_multiplier`. Shifts without a weight of their own are omitted. The weights
    are those of the law given the other shifts.
    """

    __slots__ = ()

    @property
    def log_prob_unshifted(self) -> arb | None:
        """ln of the weight of shift 0; None without this shift, or if both hypotheses are shifted."""
        if self.mirrored:
            return None
        base, power = self.law.unshifted(self.shifts)
        return power * ball(base - 1).log1p() if base > 0 else None

    @property
    def global_mu_squared(self) -> Fraction | None:
        """Square of the smallest mu for which N(0, 1) against N(mu, 1) is at least as easy to distinguish as this pair.

        N(0, 1) against N(mu, 1) is then the step of the largest shift: smaller shifts are harder to distinguish, and
        weights do not matter for small rates. The property is None if both hypotheses are mixtures.
        """
        return None if self.mirrored else (self.law.largest(self.shifts) / self.noise_multiplier) ** 2

    def weights(self) -> list[arb]:
        """Return the weights w_i of the shifts as balls of the current precision: products of odds over their sum."""
        with ctx.workprec(ctx.prec + EXTRA_BITS):
            relative = self._relative()
            total = sum(relative, arb(0))
            return [weight / total for weight in relative]

    def _relative(self) -> list[arb]:
        relative = [arb(1)]
        for place in self.law.places_of(self.shifts)[:-1]:
            relative.append(relative[-1] * ball(self.law.odds(place)))
        return relative

    def distances(self) -> list[arb]:
        """Return the shifts s_i/sigma in units of the noise sigma, as balls of the current precision."""
        return [ball(Fraction(shift) / self.noise_multiplier) for shift in self.shifts]

    @property
    def moved_mass(self) -> arb:
        """Upper bound of the mass of the shifts that the mixture omits, as a ball.

        Beyond the last and before the first kept shift, weights fall faster than geometrically. Conditioning a law on
        an event changes probabilities by at most the mass of the complement of the event.
        """
        places, kept = self.law.places, self.law.places_of(self.shifts)
        if len(kept) == len(places):
            return arb(0)
        with ctx.workprec(GUARD_BITS):
            relative, rest = self._relative(), arb(0)
            if kept[-1] < places[-1]:
                rest += _geometric(relative[-1], ball(self.law.odds(kept[-1])))
            if kept[0] > places[0]:
                rest += _geometric(relative[0], 1 / ball(self.law.odds(kept[0] - 1)))
            return (rest / sum(relative, arb(0))).upper().min(1)


def _geometric(first: arb, ratio: arb) -> arb:
    """Return first (ratio + ratio^2 + ...); infinite unless the series is proved to converge."""
    return first * ratio / (1 - ratio) if ratio < 1 else arb.pos_inf()
