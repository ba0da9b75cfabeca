"""Lower bounds on the leakage of exponential steps: the shift of every step is the same share of the step's epsilon.

An adversary chooses the shift t of an exponential step, whose loss is then t or t - epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.lattice.engine import discretised_pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import ResolvedStep, Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.two_outcomes import TwoOutcomesTradeOff

Groups = tuple[tuple[float, int], ...]
"""Pairs (epsilon, count) with different epsilons > 0."""

SHARES: Final = 32
"""Number of different shifts within an epsilon."""
TILTS: Final = np.concatenate([1 + np.geomspace(1e-6, 1.0, 40), np.geomspace(2.2, 1e4, 40)])
LARGEST_EPSILON: Final = 350.0
SMALLEST_EPSILON: Final = 1e-280


@final
@dataclass(frozen=True, slots=True)
class TwoOutcomes(ResolvedStep):
    """Exponential step with a fixed shift and the loss `high` or -`low` (nats), which is no mechanism of the API."""

    type: ClassVar[str] = "exponential"
    high: float
    low: float

    @override
    def curves(self) -> TradeOffPair:
        add = TwoOutcomesTradeOff(self.high, self.low)
        return TradeOffPair(add, add.reversed(), source="two outcomes")

    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        there, back = (TwoOutcomesTradeOff(*ends) for ends in ((self.high, self.low), (self.low, self.high)))
        return ((-self.low, back.likely), (self.high, there.rare))


@final
class FixedShifts(AbstractTradeOff):
    """Trade-off curve of exponential steps with fixed shifts, composed with the steps `others`.

    The shift t of a step with the loss t or t - epsilon is the same share of every step's epsilon. Some data sets
    attain every share, so power and delta of each curve are lower bounds of the worst case. Even the upper bounds of an
    enclosure bound only the curve of the share, not the worst case. The best share differs between evaluations. The
    share is estimated from the threshold at which the curve `guide` has its answer, and from exponents of tails. Only
    the width of the result depends on the estimate.
    """

    evidence = Evidence.CERTIFIED
    method = "discretised"

    def __init__(
        self,
        groups: Groups,
        others: Steps,
        guide: AbstractTradeOff,
        least: AbstractTradeOff | None,
        options: EngineOptions,
        *,
        reflected: bool = False,
    ) -> None:
        """Store the steps and the guide.

        `groups` has pairs (epsilon, count) of the exponential steps, and `others` is the run of all other steps.
        `guide` approximates the resulting curve. `least` is a further lower bound of the worst case, a curve that is
        its own inverse, or None; each number takes the better of both bounds. `reflected` swaps the hypotheses. The
        engines of the fixed shifts get the `options`.
        """
        self._groups, self._others, self._least = groups, others, least
        self._guide, self._options, self._reflected = guide, options, reflected
        self._curves: dict[int, AbstractTradeOff] = {}

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Largest loss (nats) of the guide, which is approached as the shifts approach epsilon."""
        return self._guide.largest_log_ratio

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._guide.singular_power

    @override
    def reversed(self) -> AbstractTradeOff:
        return FixedShifts(
            self._groups,
            self._others,
            self._guide.reversed(),
            self._least,
            self._options,
            reflected=not self._reflected,
        )

    def _at(self, share: int) -> AbstractTradeOff:
        """Return the run's curve if each exponential step has the loss t or t - epsilon, t = `share`/SHARES epsilon."""
        if share not in self._curves:
            part = share / SHARES
            chosen = SHARES - share if self._reflected else share
            steps = tuple(
                (TwoOutcomes(epsilon * chosen / SHARES, epsilon * (SHARES - chosen) / SHARES), count)
                for epsilon, count in self._groups
                if epsilon * min(part, 1 - part) > SMALLEST_EPSILON and epsilon < LARGEST_EPSILON
            )
            pair = discretised_pair((*steps, *self._others), self._options)
            self._curves[share] = pair.remove if self._reflected else pair.add
        return self._curves[share]

    @cached_property
    def _own_part(self) -> float:
        """Approximate share of the exponential steps in the variance of the run's total loss.

        The number only helps to choose the shifts.
        """
        own, rest = math.fsum(0.25 * count * epsilon**2 for epsilon, count in self._groups), 0.0
        for step, count in self._others:
            try:
                rest += count * float(step.loss_law().cumulants(0)[1])
            except UnsupportedCombination:
                rest += own
        return own / (own + rest) if own > 0 and math.isfinite(rest) else 0.0

    @np.errstate(all="ignore")
    def _share(self, x: float) -> int:
        """Estimate the ratio t/epsilon with the largest profile, in units of 1/SHARES.

        A step has the loss t or t - epsilon, and all exponential steps have the same ratio. The curve is evaluated at a
        privacy loss of x nats. No bound depends on the result.
        """
        threshold = abs(x) * self._own_part if math.isfinite(x) else 0.0
        shares = np.arange(SHARES // 2, SHARES) / SHARES
        exponent = -(TILTS - 1) * threshold - np.log(TILTS * (TILTS - 1))
        for epsilon, count in self._groups:
            high = epsilon * shares[:, None]
            likely = np.expm1(high - epsilon) / np.expm1(-epsilon)
            terms = np.logaddexp(
                np.log(likely) + high * (TILTS - 1), np.log1p(-likely) + (high - epsilon) * (TILTS - 1)
            )
            exponent = exponent + count * terms
        best = SHARES // 2 + int(np.argmax(np.nan_to_num(exponent.min(axis=1), nan=-np.inf)))
        return best if x >= 0 else SHARES - best

    @np.errstate(all="ignore")
    def _slopes(self, alpha: FloatArray) -> FloatArray:
        """Estimate ln(-f') of the guide's trade-off function f at each false positive rate, in the shape of `alpha`.

        The smaller of power and type II error near the rate gives the difference quotient. No bound depends on the
        result.
        """
        away = 0.05 * np.minimum(alpha, 1 - alpha)
        read = self._guide.points(np.concatenate([alpha - away, alpha + away]))
        errors: FloatArray = read.type_two_error.upper.reshape(2, -1)
        powers: FloatArray = read.power.upper.reshape(2, -1)
        gained: FloatArray = powers[1] - powers[0]
        missed: FloatArray = errors[0] - errors[1]
        moved = np.maximum(np.where(powers[1] < 0.5, gained, missed), 0.0)
        return np.nan_to_num(np.log(moved / (2 * away)), nan=0.0, posinf=0.0, neginf=0.0)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        shares = np.array([self._share(x) for x in self._slopes(alpha).tolist()])
        bounds = np.zeros((4, len(alpha)))
        for share in np.unique(shares).tolist():
            where = shares == share
            read = self._at(share).points(alpha[where])
            bounds[:, where] = (*log_ends(read.type_two_error), *log_ends(read.power))
        if self._least is not None:
            other = self._least.points(alpha)
            bounds[:2] = np.minimum(bounds[:2], log_ends(other.type_two_error))
            bounds[2:] = np.maximum(bounds[2:], log_ends(other.power))
        return CurvePoints.without_slopes(
            EnclosureArray.from_logs(bounds[0], bounds[1]), EnclosureArray.from_logs(bounds[2], bounds[3])
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        shares = np.array([self._share(x) for x in epsilon.tolist()])
        bounds = np.zeros((2, len(epsilon)))
        for share in np.unique(shares).tolist():
            where = shares == share
            bounds[:, where] = log_ends(self._at(share).profile(epsilon[where]))
        if self._least is not None:
            bounds = np.maximum(bounds, log_ends(self._least.profile(epsilon)))
        return EnclosureArray.from_logs(bounds[0], bounds[1])

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        found = self._at(self._share(self._guide.epsilon(delta).upper)).epsilon(delta)
        least = Enclosure.point(0.0) if self._least is None else self._least.epsilon(delta)
        return Enclosure(max(found.lower, least.lower), max(found.upper, least.upper), self.evidence)
