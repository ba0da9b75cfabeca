"""Resolved steps whose privacy loss has values that can be listed."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, AtomsPart, ResolvedStep
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.trade_off.atom_sums import lattice_of
from service.privacy.trade_off.atomic_law import AtomicLaw, sampled_law, three_atoms, with_zero
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

SAMPLED = "Zhu, Dong, Wang 2022, Theorem 11 (dominating pairs of Poisson sampling)"
MOST_LISTED = 4_096
"""Largest number of atoms that engines keep. A law of more atoms is nearly continuous."""
LIGHTEST_LISTED = -160.0
"""ln of the smallest mass, under either hypothesis, of an atom that engines keep."""
MOST_ON_CONTOUR = 1 << 15
"""Largest number of atoms of a step on contours."""
MOST_OFF_LATTICE = 8
"""Largest number of atoms that engines move to the nodes of a lattice. More of them are better left between nodes."""
WORK_OF_A_PAIR = 0.1
"""Microseconds of a convolution for each pair of equal steps."""
LARGEST_LOSS = 300.0
"""Largest loss (nats) of a step on contours. Steps with larger losses reveal nearly everything."""


class AtomicStep(ResolvedStep):
    """Step with a law of finitely many losses, which some choice of data sets attains in both directions.

    A subclass defines `atomic_law`, and `theorem` or `source_of_pair`. Curves, numbers for engines and loss laws follow
    from the law.
    """

    __slots__ = ()
    theorem: ClassVar[str]
    """Source of the pair of laws, as answers name it, for all steps of a class."""

    @override
    @abstractmethod
    def atomic_law(self) -> AtomicLaw: ...

    def source_of_pair(self) -> str:
        """Return the source of the step's pair of laws, as answers name it."""
        return self.theorem

    @property
    @final
    @override
    def has_listed_losses(self) -> bool:
        return True

    @override
    def curves(self) -> TradeOffPair:
        add = AtomsTradeOff(self.atomic_law())
        return TradeOffPair(add, add.reversed(), self.source_of_pair())

    @override
    def part(self) -> AtomsPart | None:
        law = self.atomic_law()
        return AtomsPart(law) if law.size <= MOST_ON_CONTOUR and law.losses[0] <= LARGEST_LOSS else None

    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        law = self.atomic_law()
        heavy = np.maximum(law.log_absent, law.log_present) >= LIGHTEST_LISTED
        if np.count_nonzero(heavy) > (MOST_LISTED if lattice_of(law) is not None else MOST_OFF_LATTICE):
            return ()
        masses = np.exp(law.log_absent)
        return tuple(zip(law.losses[heavy][::-1].tolist(), masses[heavy][::-1].tolist(), strict=True))

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.steps import listed_loss

        law = self.atomic_law()
        return listed_loss(law.losses[::-1], law.log_absent[::-1], law.log_present[::-1])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeAtomStep(AtomicStep):
    """Step with the losses epsilon, 0 and -epsilon (nats), whose law is the same for swapped hypotheses.

    Attributes
    ----------
    epsilon : float
        Largest loss, > 0.
    log_zero, log_apart : float
        ln of the mass of the loss 0 and of its complement; both masses are positive.
    source : str
        Theorem of the pair, as in answers.
    error : float
        Absolute error of epsilon.

    Notes
    -----
    With m0 the mass of the loss 0, the law is that of a release that reveals nothing with probability m0, and is
    binary randomised response with the loss epsilon otherwise. So

        P1(L = epsilon) = (1 - m0)/(1 + e^-epsilon), and delta(x) = (1 - m0)(e^epsilon - e^x)/(1 + e^epsilon), x >= 0.
    """

    type: ClassVar[str] = "randomized_response"
    epsilon: float
    log_zero: float
    log_apart: float
    source: str
    error: float = 0.0

    @override
    def atomic_law(self) -> AtomicLaw:
        return three_atoms(self.epsilon, self.log_zero, self.log_apart, self.error)

    @override
    def source_of_pair(self) -> str:
        return self.source


def listed_law(step: AbstractStep) -> AtomicLaw:
    """Return the law of the loss of a step whose losses can be listed. Raises ValueError for another step."""
    law = step.atomic_law()
    if law is None:
        raise ValueError(f"{step.type} has no list of losses")
    return law


def three_atom_step(epsilon: float, log_zero: float, log_apart: float, source: str, error: float = 0.0) -> AbstractStep:
    """Return the step with the losses +-epsilon and 0; `log_zero` and `log_apart` are ln of the mass of 0 and the rest.

    A step that never has the loss 0 is pure DP, and a step without another loss reveals nothing. `source` is the
    theorem of the pair, and `error` the absolute error of epsilon.
    """
    if epsilon == 0 or log_apart == -math.inf:
        return PureDp(epsilon=0.0)
    if log_zero == -math.inf:
        return PureDp(epsilon=epsilon)
    return ThreeAtomStep(epsilon=epsilon, log_zero=log_zero, log_apart=log_apart, source=source, error=error)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesStep(AtomicStep):
    """Several independent equal steps as one step: the reports of several records of one person.

    Attributes
    ----------
    step : AbstractStep
        Step with an `atomic_law`.
    count : int
        Number of such steps.
    """

    type: ClassVar[str] = "randomized_response"
    step: AbstractStep
    count: int

    @property
    @override
    def law_work(self) -> float:
        return self.step.law_work + WORK_OF_A_PAIR * self.count**2

    @override
    def atomic_law(self) -> AtomicLaw:
        from service.privacy.trade_off.atom_sums import total_law

        return total_law(((listed_law(self.step), self.count),))

    @override
    def source_of_pair(self) -> str:
        return self.step.curves().source


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAtoms(AtomicStep):
    """Step with listed losses on a Poisson sample, between data sets with and without one record.

    Attributes
    ----------
    step : AbstractStep
        Step without sampling, with an `atomic_law`. Unless `shows_draw`, it is the same for swapped hypotheses.
    rate : float
        Probability p in (0, 1) with which the record is sampled.
    shows_draw : bool
        Whether the release shows which records were sampled, as for reports of single persons.

    Notes
    -----
    H0 against (1 - p) H0 + p H1 dominates for an added record (Zhu, Dong, Wang 2022, Theorem 11). A query to which
    all other records add nothing attains this pair in every step. An empty record adds nothing, sampled or not. If
    the release shows the draw, the loss is 0 with probability 1 - p.
    """

    type: ClassVar[str] = "poisson_sampled"
    step: AbstractStep
    rate: float
    shows_draw: bool = False

    @property
    @override
    def law_work(self) -> float:
        return self.step.law_work

    @override
    def atomic_law(self) -> AtomicLaw:
        return (with_zero if self.shows_draw else sampled_law)(listed_law(self.step), self.rate)

    @override
    def source_of_pair(self) -> str:
        return self.step.curves().source if self.shows_draw else SAMPLED
