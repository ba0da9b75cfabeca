"""Stated guarantees for one record between data sets that differ in several records.

A single release has an exact worst case, the chain of randomised responses of `trade_off/stated_class/guarantee.py`.
Under pure DP discrete Laplace noise of scale 1/eps, shifted by k, has its pair and attains it in every step. Runs of
releases under approximate DP are known from two sides, as follows.

Over k changes of one record an (eps, delta)-DP mechanism is (k eps, delta (1 + e^eps + ... + e^{(k-1) eps}))-DP (Dwork,
Roth 2014, Theorem 2.2 and after). The pair of this guarantee dominates in every composition. The pair is not attained.
Let g(a) = min(e^eps a + delta, 1 - e^-eps (1 - a - delta)) be the largest power after one change. After k changes the
power is at most g(g(...(a))). This power is below that of the guarantee where the first changes multiply the power by
e^eps and the last changes gain less.

The following mechanism is attained in every step. It adds Laplace noise of scale 1/eps to a query that k records move
by k. Beside it, a uniform law on an interval of length 1 moves by delta for each record. By basic composition both
together are (eps, delta)-DP for one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, ResolvedStep, Steps
from service.privacy.mechanisms.domain import EPSILON, NOISE_MULTIPLIER
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

MOST_RECORDS: Final = 4096
"""Largest number of records of a chain, whose members are evaluated one by one."""
STATED: Final = (
    "bracket: Laplace noise with the stated guarantee for one record attains the lower bound. "
    "The upper bound composes the implied guarantee for several records (Dwork, Roth 2014, "
    "Theorem 2.2), which no mechanism attains."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketedStep(ResolvedStep):
    """Step that is known from two sides: by steps that reveal less and a step that reveals more.

    Attributes
    ----------
    below : Steps
        Steps that reveal no more; one choice of data sets attains them in every step.
    above : AbstractStep
        A dominating step.
    bracket : str or None
        The sentence that names both theorems. None if both steps are one pair of laws with two roundings of its
        parameters.
    """

    type: ClassVar[str] = "approximate_dp"
    below: Steps
    above: AbstractStep
    bracket: str | None = None

    @property
    @override
    def law_work(self) -> float:
        return max(step.law_work for step in (self.above, *(step for step, _ in self.below)))

    @override
    def curves(self) -> TradeOffPair:
        """Return the trade-off curves of `above` (upper bounds) and of the first step of `below` (lower bounds).

        Compositions use all steps of `below`.
        """
        least, most = self.below[0][0].curves(), self.above.curves()
        add = Bracketed(least.add, most.add)
        remove = add if most.add is most.remove else Bracketed(least.remove, most.remove)
        return TradeOffPair(add, remove, most.source, most.notes, bracket=self.bracket)

    @override
    def sides(self) -> tuple[Steps, AbstractStep, str | None]:
        return self.below, self.above, self.bracket

    @override
    def loss_law(self) -> LossLaw:
        return self.above.loss_law()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfStated(BracketedStep):
    """Worst case of k records under a stated (eps, delta)-DP guarantee for one record.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee for one record.
    records : int
        Number k of records, at most MOST_RECORDS.
    below, above, bracket
        Steps that enclose the step in compositions, as in `BracketedStep`.
    """

    epsilon: float
    delta: float
    records: int

    @override
    def curves(self) -> TradeOffPair:
        from service.privacy.trade_off.stated_class.guarantee import GroupTradeOff

        curve = GroupTradeOff(float(self.epsilon), float(self.delta), self.records)
        source = "k-fold iterate of the curve of one record (Kairouz, Oh, Viswanath 2015, Theorem 2.1)"
        return TradeOffPair(curve, curve, source)


def multiple(epsilon: float, neighbours: Neighbours, kind: str) -> Fraction:
    """Return `epsilon` (nats) times the number of records that differ between the `neighbours`, exactly.

    Raise UnsupportedCombination for a mechanism `kind` if the product exceeds the domain of epsilon.
    """
    total = Fraction(epsilon) * neighbours.records
    if total > Fraction(EPSILON.high):
        reason = f"records times epsilon is above {EPSILON.high:g}, where a guarantee has no effect."
        raise neighbours.refused(kind, reason, ("fewer records",))
    return total


def between(below: AbstractStep, above: AbstractStep) -> AbstractStep:
    """Return the step between two roundings, `below` and `above`, of its parameters.

    If both are equal, the result is the step itself.
    """
    return above if below == above else BracketedStep(below=((below, 1),), above=above)


def group_delta(epsilon: float, delta: float, records: int) -> float:
    """Return an upper bound of delta' = delta (e^{k eps} - 1)/(e^eps - 1), at most 1.

    Over k = `records` changes of one record an (eps, delta)-DP mechanism is (k eps, delta')-DP. eps = `epsilon` is in
    nats.
    """
    if delta == 0 or epsilon == 0:
        return min(rounded(Fraction(delta) * records, 1), 1.0)
    # ln of the sum: k eps + ln(1 - e^{-k eps}) - eps - ln(1 - e^-eps).
    total = records * epsilon
    log = math.log(delta) + (total - epsilon) + math.log(-math.expm1(-total)) - math.log(-math.expm1(-epsilon))
    size = abs(math.log(delta)) + 2 * total + abs(math.log(-math.expm1(-epsilon))) + 1
    log += 4 * (FUNCTION_ERROR + 4 * UNIT_ROUNDOFF) * size
    return 1.0 if log >= 0 else min(math.exp(log) * (1 + FUNCTION_ERROR), 1.0)


def attained_noise(epsilon: float, neighbours: Neighbours) -> Laplace | None:
    """Return Laplace noise that is eps-DP for one record, as a step between these `neighbours`, or None.

    eps = `epsilon` is in nats. The neighbouring data sets differ in several records. The result is None if the scale is
    out of the domain of Laplace noise.
    """
    scale = math.inf if epsilon == 0 else rounded(1 / Fraction(epsilon), 1)
    if scale not in NOISE_MULTIPLIER:
        return None
    return Laplace(noise_multiplier=scale, sensitivity=neighbours.records)
