"""Report noisy max: the candidate with the largest noisy score."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.discrete.few_attacks import Attacks, EnclosedPathStep
from service.privacy.mechanisms.discrete.piecewise_exponential import laplace_density, laplace_distribution
from service.privacy.mechanisms.discrete.sampled_choice import sampled_choice
from service.privacy.mechanisms.discrete.selection import SCORES_MOVE_LITTLE, TightPathStep
from service.privacy.mechanisms.domain import EPSILON, SCORE_SCALE, SCORE_SENSITIVITY, check_fields
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.groups import between
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import rounded

SOURCE = "Ding et al. 2021 (permute and flip is report noisy max with exponential noise); path lemma"
ENCLOSED = (
    "bracket: the best of few candidates against few attains the lower bound. The upper bound is Laplace noise of the "
    "same guarantee for single outcomes (path lemma)."
)
Noise = Literal["gumbel", "exponential", "laplace"]
GROUPS = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2))
"""Numbers of raised and of other candidates in the attacks on Laplace noise."""
GAPS_PER_SHIFT, FARTHEST_GAP = 6, 6.0
"""Gaps of scores for each shift eta, and the largest gap in units of the scale."""


def largest_shift(change: Fraction, scale: Fraction, *, monotone: bool, neighbours: Neighbours, kind: str) -> Fraction:
    """Return the largest change of a gap of two scores, in units of the scale of the noise.

    Parameters
    ----------
    change : Fraction
        Largest change of a score by one record.
    scale : Fraction
        Scale of the noise.
    monotone : bool
        Whether one record moves all scores in one direction.
    neighbours : Neighbours
        Data sets between which the attacker distinguishes.
    kind : str
        Type of the mechanism.

    Raises
    ------
    UnsupportedCombination
        For monotone scores and replaced records, and for shifts that reveal everything.
    """
    if monotone and neighbours.relation == REPLACE:
        reason = (
            "a replaced record removes one contribution and adds another one, so scores move in both directions. Send "
            "monotone false."
        )
        raise neighbours.refused(f"{kind} with monotone scores", reason, ("add_or_remove_one", "zero_out"))
    shift = (1 if monotone else 2) * change * neighbours.records / scale
    if shift > Fraction(EPSILON.high):
        reason = f"the scores move by more than {EPSILON.high:g} scales of the noise, which hides nothing."
        raise neighbours.refused(kind, reason, ("more noise", "fewer records"))
    return shift


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNoisyMax(DescribedStep):
    """Choice of the candidate with the largest score plus noise.

    Attributes
    ----------
    noise : str
        `gumbel` (the exponential mechanism), `exponential` (permute and flip) or `laplace`.
    scale : float
        Scale b of the noise.
    sensitivity : float
        Largest change Delta of a score by one record.
    monotone : bool
        Whether one record moves all scores in one direction.

    Notes
    -----
    Let eta = 2 Delta/b, or Delta/b for monotone scores. Gumbel noise chooses a candidate of score u with a probability
    proportional to e^{u/b}. Exponential noise is tight at every single rate by the path lemma (`selection.py`). The
    path lemma bounds Laplace noise from above only.
    """

    type: ClassVar[str] = "report_noisy_max"
    type_premises = (SCORES_MOVE_LITTLE,)
    noise: Noise
    scale: Annotated[float, SCORE_SCALE]
    sensitivity: Annotated[float, SCORE_SENSITIVITY]
    monotone: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.noise not in ("gumbel", "exponential", "laplace"):
            raise OutOfDomain("noise", self.noise, "one of gumbel, exponential, laplace")

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        change, scale = Fraction(self.sensitivity), Fraction(self.scale)
        eta = largest_shift(change, scale, monotone=self.monotone, neighbours=neighbours, kind=self.type)
        if self.noise == "gumbel":
            low, high = (Exponential(epsilon=rounded(eta, side)) for side in (-1, 1))
            return between(low, high)
        if self.noise == "exponential":
            return TightPathStep(eta=eta, source=SOURCE)
        attacks = NoisyMaxAttacks(eta=rounded(eta, -1))
        return EnclosedPathStep(eta=eta, attacks=attacks, source="path lemma", bracket=ENCLOSED)

    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        return sampled_choice(self, rate, neighbours)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(DescribedStep):
    """Permute and flip: report noisy max with exponential noise of scale b = 2 Delta/epsilon.

    Attributes
    ----------
    epsilon : float
        Parameter of the mechanism, which is epsilon-DP.
    monotone : bool
        Whether one record moves all scores in one direction. The mechanism is then epsilon/2-DP.

    Notes
    -----
    Delta is the largest change of a score by one record. The mechanism visits candidates in random order, and takes
    one of score u with probability e^{epsilon (u - largest score)/(2 Delta)}. It is report noisy max with exponential
    noise (Ding et al. 2021).
    """

    type: ClassVar[str] = "permute_and_flip"
    type_premises = (SCORES_MOVE_LITTLE,)
    epsilon: Annotated[float, EPSILON]
    monotone: bool = False

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if self.epsilon == 0:
            return PureDp(epsilon=0.0)
        scale = 2 / Fraction(self.epsilon)
        eta = largest_shift(Fraction(1), scale, monotone=self.monotone, neighbours=neighbours, kind=self.type)
        return TightPathStep(eta=eta, source=SOURCE)

    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        return sampled_choice(self, rate, neighbours)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxAttacks(Attacks):
    """Attacks on report noisy max with Laplace noise of scale 1.

    Notes
    -----
    k candidates have equal scores, and m others scores that are lower by g. The record raises the gap by `eta`. The
    test is "one of the k candidates", with the probability P(max of k + g > max of m).
    """

    eta: float

    @override
    def tests(self) -> tuple[FloatArray, FloatArray]:
        if not 1e-9 < self.eta < 100:
            return np.zeros(0), np.zeros(0)
        step = self.eta / GAPS_PER_SHIFT
        first = -max(int((self.eta + FARTHEST_GAP) / step), 1)
        last = min(-first, first + 8 * GAPS_PER_SHIFT + 60)
        found: list[tuple[float, float]] = []
        for raised, others in GROUPS:
            chances = [_chance(raised, others, step * k) for k in range(first, last + GAPS_PER_SHIFT + 1)]
            for (low, low_error), (high, high_error) in zip(chances, chances[GAPS_PER_SHIFT:], strict=False):
                found.append((low + low_error, high - high_error))
        table = np.array(found)
        return table[:, 0], table[:, 1]


def _chance(raised: int, others: int, gap: float) -> tuple[float, float]:
    """Return P(max of `raised` Laplace variables + gap > max of `others` Laplace variables), and its rounding error."""
    above = laplace_distribution(1.0, gap).power(raised - 1).times(laplace_density(1.0, gap))
    value, error = above.times(laplace_distribution(1.0, 0.0).power(others)).integral()
    return raised * value, raised * error
