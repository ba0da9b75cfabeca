"""Report noisy max: the candidate with the largest noisy score."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.discrete.few_attacks import EnclosedPathStep
from service.privacy.mechanisms.discrete.noisy_max_attacks import NoisyMaxAttacks
from service.privacy.mechanisms.discrete.sampled_choice import NoisyChoice
from service.privacy.mechanisms.discrete.selection import SCORES_MOVE_LITTLE, TightPathStep
from service.privacy.mechanisms.domain import EPSILON, SCORE_SCALE, SCORE_SENSITIVITY, check_fields
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.groups import between
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.rounding import rounded

SOURCE = "Ding et al. 2021 (permute and flip is report noisy max with exponential noise); path lemma"
ENCLOSED = (
    "bracket: the best of few candidates against few attains the lower bound. The upper bound is Laplace noise of the "
    "same guarantee for single outcomes (path lemma)."
)
Noise = Literal["gumbel", "exponential", "laplace"]


def largest_shift(change: Fraction, scale: Fraction, *, monotone: bool, neighbours: Neighbours, kind: str) -> Fraction:
    """Return the largest change of a gap of two scores between `neighbours`, in units of the `scale` of the noise.

    `change` is the largest change of a score by one record, `monotone` whether one record moves all scores in one
    direction, and `kind` the type of the mechanism. Raises UnsupportedCombination for monotone scores and replaced
    records, and for shifts above the largest epsilon of a request.
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
class ReportNoisyMax(NoisyChoice):
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(NoisyChoice):
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
