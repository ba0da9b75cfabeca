"""Releases of which only bounds of Renyi divergences are known: zero-concentrated and Renyi differential privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, Attained, ResolvedStep, Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED, MechanismHazard
from service.privacy.mechanisms.domain import EPSILON, MU, resolved
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.work import compute_complete_once, count_separately, count_work, is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.with_singular_mass import SingularMass, WithSingularMass
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.trade_off.stated_class.region import AbstractRegion


STATED_DIVERGENCES_ALONE: Final = MechanismHazard(
    code="stated_divergences_alone",
    text="Every answer is for the worst mechanism with the stated bounds of Renyi divergences, and different "
    "answers may be for different mechanisms. A description of the run itself (noise, sampling rate and steps, as "
    "dpsgd or gaussian) gives better numbers.",
    about="parameters",
    alone=True,
)
BRACKET: Final = (
    "bracket: one mechanism with the stated bounds attains the lower bound in every step (Gaussian noise, or "
    "randomised response). "
    "The upper bound composes the worst case of each step (Zhu, Dong, Wang 2022, Theorem 10) and the stated "
    "bounds (Bun, Steinke 2016, Lemma 7; Mironov 2017, Proposition 1). No mechanism attains it."
)
IMPLIED_DELTA: Final = 1e-12
"""delta of the guarantee (eps, delta) that stands for a class without a polygon in compositions."""
WIDER: Final = (1e-30, 1e-25, 1e-20, 1e-15, 1e-12, 1e-9)
"""Bounds in nats. A class without a polygon is widened until each of its bounds is at least one of these numbers."""
WORK_OF_A_GUARANTEE: Final = 30_000.0
"""Microseconds of the guarantee (eps, delta) of a class."""
WORK_OF_A_POLYGON: Final = 60_000.0
"""Microseconds of the polygon of a class for one record."""
FINE: Final = 1.04
"""Ratio of distances of neighbouring lines of a polygon from the middle of the boundary, in logits."""
COARSE: Final = (2.5, 1.4)
"""Ratios to try if the allowed work is spent. The first one leaves about one of twenty lines, whose corners may be no
points of a trade-off curve."""
MOST_RECORDS: Final = 1024
"""Largest number of records of a chain, whose members are evaluated one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDivergences(AbstractStep):
    """Any mechanism whose Renyi divergences between neighbours have stated bounds.

    The bounds hold for one changed record. `records` is the number k of records that differ. A subclass has the bounds
    as fields, and defines the abstract methods and properties from them.

    Notes
    -----
    The curves of one step are exact: for every rate, epsilon and delta one mechanism of the class attains the answer
    (`trade_off/stated_class/curve.py`). No mechanism attains all of them. So compositions are brackets. For k records
    the worst case is the k-fold chain T(T(...T(q))): a mechanism that draws one more coin of the worst pair for every
    changed record, up to k, satisfies the stated bounds, and by induction no other mechanism has more power.
    """

    type_premises = (PARAMETERS_ARE_PROVED,)
    type_hazards = (STATED_DIVERGENCES_ALONE,)
    records: int = resolved(1)

    @property
    @override
    def law_work(self) -> float:
        # Composed classes of one direction need a guarantee (eps, delta) of their curve.
        return WORK_OF_A_GUARANTEE if self.is_forward_only else 0.0

    @abstractmethod
    def region(self) -> AbstractRegion | None:
        """Return the pairs of two-outcome laws with these bounds, or None if a bound of 0 means that they are equal."""

    @property
    @abstractmethod
    def gaussian_mu(self) -> float:
        """Largest mu for which N(0, 1) against N(mu, 1) satisfies the stated bounds for one record, rounded down."""

    @property
    @abstractmethod
    def is_forward_only(self) -> bool:
        """Whether only the divergences of the law with the record from the law without the record have bounds."""

    @property
    def stated_orders(self) -> tuple[float, ...]:
        """Orders of the divergences with stated bounds; empty for bounds of all orders."""
        return ()

    @abstractmethod
    def widened(self, bound: float) -> StatedDivergences:
        """Return a class that contains this class, whose rho or bounds of all orders (nats) are at least `bound`."""

    @abstractmethod
    @override
    def added(self, count: int) -> AbstractStep | None:
        """Return one step with the bounds of `count` such steps together; None above the largest bound of a request.

        Renyi divergences of the same order add up, also if later mechanisms depend on earlier results (Bun, Steinke
        2016, Lemma 7; Mironov 2017, Proposition 1).
        """

    @abstractmethod
    @override
    def plus(self, other: AbstractStep) -> AbstractStep | None:
        """Return one step with the bounds of this and another step together, or None.

        None stands for a step without such bounds, and for sums above the largest bound of a request.
        """

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # The parameters hold for one record under the relation in force.
        if neighbours.records > MOST_RECORDS:
            reason = f"the chain of members is computed for at most {MOST_RECORDS} records."
            raise neighbours.refused(self.type, reason, ("fewer records",))
        return self.resolved_for(neighbours)

    @abstractmethod
    def resolved_for(self, neighbours: Neighbours) -> AbstractStep:
        """Return the step whose stated bounds hold between these neighbouring data sets."""

    @override
    def rounded(self, side: int) -> AbstractStep:
        """Return the class itself for `side` -1, and a step that is at least as easy to attack for 1.

        Bounds in one direction give an (eps, delta)-DP step, which needs the curve of the class. Bounds in both
        directions give a polygon, which is computed later.
        """
        if side < 0 or self.region() is None:
            return self
        return _implied(self) if self.is_forward_only else DominatingPolygon(step=self)

    @override
    def curves(self) -> TradeOffPair:
        source = "worst case over the class: T(q) = max {p : D_a(p || q) <= eps(a) for all stated orders}"
        curve = class_curve(self)
        add, remove = (curve, curve) if not self.is_forward_only else (curve, curve.reversed())
        return TradeOffPair(add, remove, source=source)

    @override
    def attained(self) -> Attained | None:
        return Attained(Gdp(mu=0.0), BRACKET, choices=self._attacks) if self.region() is not None else None

    def _attacks(self, count: int) -> tuple[Steps, ...]:
        """Return runs of `count` equal members of the class that compose exactly.

        One run has randomised responses, and one has Gaussian noise. The runs are lower bounds of the worst case.
        """
        mu = min(self.gaussian_mu * self.records * (1 - 2.0**-50), MU.high)
        runs: list[Steps] = [((PureDp(epsilon=_response(self)), count),)]
        if mu > 0:
            runs.append(((Gdp(mu=mu), count),))
        return tuple(runs)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DominatingPolygon(ResolvedStep):
    """Pair of two laws with finitely many outcomes that dominates a class of mechanisms.

    Attributes
    ----------
    step : StatedDivergences
        The class.
    """

    type: ClassVar[str] = "rdp"
    step: StatedDivergences

    @override
    def curves(self) -> TradeOffPair:
        """Return the curves of the polygon, which is computed on first use.

        Both directions have the same curve. Doubles cannot separate the lines of a class with tiny bounds. Then a class
        with larger bounds (`WIDER`) gives the polygon. If none of these has a polygon, the curves are those of an (eps,
        delta)-DP guarantee of the class. If the allowed work is spent, the polygon has few lines and wider bounds.
        """
        return compute_complete_once(DominatingPolygon, self.step, self._counted_curves)

    def _counted_curves(self) -> TradeOffPair:
        if is_spent(WORK_OF_A_POLYGON * (self.step.records - 1)):
            return self._curves(*COARSE)
        count_work(WORK_OF_A_POLYGON * self.step.records)
        return self._curves(FINE)

    def _curves(self, *ratios: float) -> TradeOffPair:
        """Return the curves of a polygon whose lines have distances from the middle that rise by one of `ratios`."""
        classes = [self.step, *(self.step.widened(bound) for bound in WIDER)]
        tried = (_polygon_curve(each, ratio) for each in dict.fromkeys(classes) for ratio in ratios)
        known = next(filter(None, tried), None)
        if known is None:
            return _implied(self.step).curves()
        polygon, revealed = known
        both = WithSingularMass(polygon, SingularMass.of([(revealed, 1)]))
        return TradeOffPair(both, both, source="Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)")


@lru_cache(maxsize=64)
def _implied(step: StatedDivergences) -> ApproximateDp:
    """Return a guarantee of (eps, delta)-DP that every member of a class has.

    delta is the largest probability that a member reveals the record, plus `IMPLIED_DELTA`. If the eps exceeds the
    domain, the guarantee is delta = 1.
    """
    curve = class_curve(step)
    with count_separately():  # other requests use the result
        delta = min(max(curve.singular_power.upper, curve.reversed().singular_power.upper) + IMPLIED_DELTA, 1.0)
        epsilon = max(each.epsilon(delta).upper for each in (curve, curve.reversed()))
    return ApproximateDp(epsilon=epsilon, delta=delta) if epsilon in EPSILON else ApproximateDp(epsilon=0.0, delta=1.0)


@lru_cache(maxsize=256)  # hundreds of points of the boundary
def _polygon_curve(step: StatedDivergences, ratio: float) -> tuple[AbstractTradeOff, float] | None:
    """Return the dominating polygon of a class and the probability beside it, or None as `dominating_polygon`.

    `ratio` is that of the distances of its lines.
    """
    from service.privacy.trade_off.stated_class.curve import SymmetricClassTradeOff
    from service.privacy.trade_off.stated_class.dominating_polygon import dominating_polygon

    curve = class_curve(step)
    return dominating_polygon(curve.frontier, ratio) if isinstance(curve, SymmetricClassTradeOff) else None


@lru_cache(maxsize=256)  # a curve remembers its boundary
def class_curve(step: StatedDivergences) -> AbstractTradeOff:
    """Return the trade-off curve of the worst case of one step, in the add direction.

    If some bound is 0, it is the curve of two equal laws.
    """
    from service.privacy.trade_off.stated_class.curve import SymmetricClassTradeOff
    from service.privacy.trade_off.stated_class.one_direction import ForwardClassTradeOff

    region = step.region()
    if region is None:
        return ApproximateDpTradeOff(0.0, 0.0)
    return (ForwardClassTradeOff if step.is_forward_only else SymmetricClassTradeOff)(region, step.records)


@lru_cache(maxsize=64)
def _response(step: StatedDivergences) -> float:
    """Return the largest epsilon (nats, rounded down) of a binary randomised response in the class.

    The response has the rate q and the power p = 1 - q on the boundary of the class, so that epsilon = ln((1 - q)/q).
    """
    from flint import arb, ctx

    from service.privacy.numerics.balls import doubles
    from service.privacy.trade_off.stated_class.region import Base

    region = step.region()
    if region is None:
        return 0.0
    with ctx.workprec(region.bits):
        point = region.boundary(Base(arb(0.5), arb(0.5), "middle"))
        low = doubles((point.rate_rest / point.rate).log())[0]
    return min(max(low, 0.0), EPSILON.high)


def root_below(square: Fraction) -> float:
    """Return a double that is at most the square root of a number."""
    root = math.sqrt(float(square)) * (1 - 2.0**-50)
    return root if Fraction(root) ** 2 <= square else math.nextafter(root, 0.0)
