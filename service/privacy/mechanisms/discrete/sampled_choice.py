"""Choice with exponential noise on a Poisson sample of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractStep, Attained, DescribedStep, LaplacePart, ResolvedStep, Steps
from service.privacy.mechanisms.discrete.atomic_step import SAMPLED, SampledAtoms
from service.privacy.mechanisms.discrete.selection import SEVERAL, GapStep, TightPathStep, gap_choices
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLaplace(ResolvedStep):
    """Laplace noise on a Poisson sample, with a double for its largest loss: a dominating pair of a sampled selection.

    Attributes
    ----------
    loss, rate : float
        Largest loss without sampling (nats), and the probability in (0, 1) with which the record is sampled.
    """

    type: ClassVar[str] = "poisson_sampled"
    loss: float
    rate: float

    @override
    def curves(self) -> TradeOffPair:
        add = PoissonSampledAdd(LaplaceTradeOff(Enclosure.point(self.loss)), self.rate)
        return TradeOffPair(add, add.reversed(), SAMPLED)

    @override
    def part(self) -> LaplacePart:
        return LaplacePart(self.loss, self.rate)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledChoice(ResolvedStep):
    """Selection mechanism on a Poisson sample, between data sets with and without one record.

    Attributes
    ----------
    step : TightPathStep
        The mechanism without sampling.
    rate : float
        Probability p in (0, 1) with which the record is sampled.

    Notes
    -----
    Laplace noise on the sample dominates (Zhu, Dong, Wang 2022, Theorem 11). At a false positive rate a the power of
    the dominating pair is (1 - p) a + p T(a) with the power T without sampling, and the scores that attain T(a) attain
    it: all other records change no score. Every rate has its own scores, as without sampling.
    """

    type: ClassVar[str] = "poisson_sampled"
    step: TightPathStep
    rate: float

    @override
    def curves(self) -> TradeOffPair:
        add = PoissonSampledAdd(LaplaceTradeOff(self.step.shift), self.rate)
        return TradeOffPair(add, add.reversed(), f"{SAMPLED}; {self.step.source}")

    @override
    def part(self) -> LaplacePart:
        return LaplacePart(float(self.step.eta), self.rate)

    @override
    def rounded(self, side: int) -> AbstractStep:
        return SampledLaplace(loss=rounded(self.step.eta, side), rate=self.rate)

    @override
    def attained(self) -> Attained:
        first = self._choices(1)[0][0][0]
        return Attained(first, SEVERAL, either_way=False, choices=self._choices, may_come_last=True)

    def _choices(self, count: int) -> tuple[Steps, ...]:
        return tuple(
            tuple((self._sampled(step), times) for step, times in run) for run in gap_choices(self.step.eta, count)
        )

    def _sampled(self, step: AbstractStep) -> AbstractStep:
        return SampledAtoms(step=step, rate=self.rate) if isinstance(step, GapStep) else step


class NoisyChoice(DescribedStep):
    """Choice of the candidate with the largest noisy score. A subclass defines `under`."""

    __slots__ = ()

    @final
    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        """Return the mechanism on a Poisson sample of the sampling rate `rate`, or None.

        The result is None if `neighbours` differ in several or in replaced records, or if no pair is known for the
        noise.
        """
        if neighbours.records > 1 or neighbours.relation == REPLACE:
            return None
        alone = self.under(neighbours)
        return SampledChoice(step=alone, rate=float(rate)) if isinstance(alone, TightPathStep) else None
