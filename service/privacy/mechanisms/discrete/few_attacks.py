"""Choices with Laplace noise: few attacks for the lower bound, and the path lemma (`selection.py`) above."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.abstract import Attained, ResolvedStep, Steps
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.selection import PathStep
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff

SHARES: Final = (2.0, 0.0, 16.0)
"""Orders of divergences by which attacks are chosen, minus 1 and times the shift eta."""
LEAST_SHIFT: Final = 1e-3
"""Smallest eta to which orders adapt, nats."""
WORK_OF_ATTACKS: Final = 30_000.0
"""Microseconds of all attacks on one choice."""
MOST_FEW: Final = 30
"""Largest number of steps in which tests with rare outcomes are tried."""


class Attacks(ABC):
    """Attacks on a selection mechanism with Laplace noise (report noisy max, sparse vector), as tests of H0.

    Attacks are immutable. A subclass defines `tests`.
    """

    __slots__ = ()

    @abstractmethod
    def tests(self) -> BoundedTests:
        """Return bounds of the false positive rate and the power of all tests that the attacker may choose from."""

    @final
    def corners(self) -> Corners:
        """Return all tests, and their complements as tests of the swapped hypotheses, as corners of a curve."""
        return _corners(self)


@lru_cache(maxsize=256)
def _corners(attacks: Attacks) -> Corners:
    known = attacks.tests()
    useful = (known.power > known.rate) & (known.rate > 0)
    if not useful.any():
        rising, falling = np.array([0.0, 1.0]), np.array([1.0, 0.0])
        return Corners(rising, falling, rising, falling)
    found = [each[useful] for each in (known.rate, known.rest, known.power, known.error)]
    # The complement of a test has the rate 1 - power and the power 1 - rate.
    rate, rest, power, error = (np.concatenate([found[i], found[3 - i]]) for i in range(4))
    order = np.argsort(rate, kind="stable")
    return Corners.hull(rate[order], rest[order], power[order], error[order])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FewTestsStep(ResolvedStep):
    """Lower bound of a selection mechanism: the best of finitely many attacks, each with data sets of its own.

    Attributes
    ----------
    attacks : Attacks
        Attacks, with bounds of their false positive rates and powers.
    """

    type: ClassVar[str] = "report_noisy_max"
    attacks: Attacks

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_ATTACKS

    @override
    def curves(self) -> TradeOffPair:
        curve = PolygonTradeOff(self.attacks.corners())
        return TradeOffPair(curve, curve, "attacks on few candidates or queries")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EnclosedPathStep(PathStep):
    """Selection mechanism no easier to attack than Laplace noise (path lemma), no harder than by a few known attacks.

    Attributes
    ----------
    eta : Fraction
        Exact shift of the Laplace noise of scale 1.
    attacks : Attacks
        Attacks for the lower bound.
    source, bracket : str
        Theorem of the dominating pair, and the sentence that names both bounds.
    """

    type: ClassVar[str] = "report_noisy_max"
    eta: Fraction
    attacks: Attacks
    source: str
    bracket: str

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_ATTACKS

    @override
    def curves(self) -> TradeOffPair:
        least, most = FewTestsStep(attacks=self.attacks).curves(), LaplaceTradeOff(self.shift)
        curve = Bracketed(least.add, most)
        return TradeOffPair(curve, curve, self.source, bracket=self.bracket)

    @override
    def attained(self) -> Attained:
        (first, *_) = self._choices(1)
        alone = FewTestsStep(attacks=self.attacks)
        return Attained(first[0][0], self.bracket, alone=alone, choices=self._choices, includes_choices=True)

    def _choices(self, count: int) -> tuple[Steps, ...]:
        # Steers only: every order gives an attained test. Few steps reward rare outcomes that tell much.
        shares = SHARES[:1] if count == 1 else SHARES if count <= MOST_FEW else SHARES[:2]
        orders = [1 + share / max(float(self.eta), LEAST_SHIFT) for share in shares]
        return tuple(((FixedTestStep(attacks=self.attacks, order=order), count),) for order in orders)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTestStep(AtomicStep):
    """Outcome (a bit) of one attack, as a step of a composition: one pair of data sets in every step.

    If no attack beats a guess, the step reveals nothing.

    Attributes
    ----------
    attacks : Attacks
        Attacks from which one is taken.
    order : float
        The attack that is taken has the largest Renyi divergence of this order, at least 1, between both laws of the
        bit.
    """

    type: ClassVar[str] = "report_noisy_max"
    theorem = "one fixed attack"
    attacks: Attacks
    order: float

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_ATTACKS

    @override
    def atomic_law(self) -> AtomicLaw:
        return _law_of(self)


@lru_cache(maxsize=256)  # plans and engines of a run ask for it several times
def _law_of(step: FixedTestStep) -> AtomicLaw:
    corners = step.attacks.corners()
    if len(corners.rate) <= 2:  # no attack beats a guess
        return AtomicLaw(np.zeros(1), np.zeros(0), np.zeros(1), np.zeros(1), 0.0, 0.0, is_symmetric=True)
    inner = slice(1, -1)
    absent, present = (
        np.stack([_logs(first[inner], second[inner]), _logs(second[inner], first[inner])])
        for first, second in ((corners.rate, corners.rest), (corners.power, corners.error))
    )
    losses = present - absent
    if step.order == 1:  # about the Renyi divergence of each attack
        divergence = (np.exp(absent + losses) * losses).sum(axis=0)
    else:
        divergence = np.logaddexp.reduce(absent + step.order * losses, axis=0) / (step.order - 1)
    best = int(np.argmax(divergence))
    absent, present, losses = absent[:, best], present[:, best], losses[:, best]
    return AtomicLaw(losses, losses[:-1] - losses[1:], absent, present, 4 * FUNCTION_ERROR, 4 * FUNCTION_ERROR)


def _logs(number: FloatArray, rest: FloatArray) -> FloatArray:
    """Return ln of `number` in (0, 1), from the smaller one of `number` and its complement `rest`."""
    return np.where(number <= 0.5, np.log(number), np.log1p(-np.minimum(rest, 0.5)))
