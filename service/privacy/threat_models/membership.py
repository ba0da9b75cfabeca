"""Adversary of Gaussian membership inference privacy, who has the law of the data, but not the other records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar, Final, Literal, final

from typing_extensions import override

from service.privacy.composition.planning.accuracy import POPULATION
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan, mixed_plan
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import SUSCEPTIBILITY, WEIGHT, check_fields
from service.privacy.mechanisms.mixture import WEIGHT_SUM_TOLERANCE
from service.privacy.threat_models import cost, membership_premises
from service.privacy.threat_models.membership_run import (
    CLOSED_FORM,
    DISCRETISED,
    Composition,
    MembershipRun,
    StepCurve,
    engine_of,
    engines_of,
    plan_of,
    run_of,
)
from service.privacy.threat_models.relaxed import RelaxedThreatModel
from service.privacy.threat_models.susceptibilities import CELLS, FEW_CELLS, chi_square_population, chi_square_reach
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.mixture.bracketed import BracketedMixture, Part
from service.privacy.trade_off.mixture.curve import mixed
from service.privacy.trade_off.pair import TradeOffPair, brackets_of
from service.privacy.trade_off.pointwise_max_pair import pointwise_max_of

SUBPOPULATIONS: Final = 64
CLOSELY: Final = (5e-4, 3_000)
LOOSELY: Final = (0.05, 150)
"""Accuracy and largest count of levels for a law of susceptibilities; `LOOSELY` for curves from lattices."""
WORST_CASE: Final = WorstCase(neighboring_relation="replace_one")
MIXED: Final = "Leemann et al. 2023, Definition 4.1 (stochastic composition)"
MIX_REASON: Final = (
    "mixture: all steps are composed for each susceptibility of the record. The results are "
    "mixed afterwards at one likelihood ratio."
)
BRACKETED: Final = (
    "population: susceptibilities with a chi-square law are enclosed by two mixtures over "
    "{cells} intervals. One mixture uses the upper endpoints, and the other the lower endpoints, "
    "because the power rises with the susceptibility."
)
BRACKET: Final = (
    "bracket: two upper bounds hold (Leemann et al. 2023, Theorem 5.1, for this adversary; "
    "Theorem 4.2, for every adversary), and the answer is the smaller one. No law of gradients "
    "is known that satisfies both theorems and attains the smaller bound."
)
BOTH_HOLD: Final = (
    "The worst case of the same run is also a bound. The answer uses the smaller power at every false positive rate."
)
NOTHING_HIDDEN: Final = "Without noise or clipping, the worst case sees every batch and adds nothing to this bound."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSusceptibility:
    """Share of all records that have one susceptibility K.

    Attributes
    ----------
    weight : Fraction
        Share of the records.
    susceptibility : float
        K >= 0 of these records: the squared length of the whitened, centred gradient.
    """

    weight: Annotated[float, WEIGHT]
    susceptibility: Annotated[float, SUSCEPTIBILITY]

    def __post_init__(self) -> None:
        check_fields(self)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Membership(RelaxedThreatModel):
    """Membership inference on noisy SGD by an adversary who has the law of the data (Leemann et al. 2023).

    Attributes
    ----------
    step_curve : {"chi_square", "gaussian"}
        Theorem 5.1 or Corollary 5.1 for a step of `noisy_sgd`.
    composition : {"exact", "clt", "root_sum_square"}
        Composition of the sampled steps, Equation 10, or mu sqrt(steps).
    population : tuple, "chi_square" or None
        Shares of records by susceptibility, mixed after all steps. The susceptibility of a record is the squared length
        of its whitened gradient; "chi_square" is its law for Gaussian gradients. With None, all records have the
        susceptibility of `noisy_sgd`.

    Notes
    -----
    The direction add has the curve of Theorem 5.1, and remove the inverse function. At every rate the type II error is
    the larger of this curve's and the worst case's (Theorem 4.2). Approximations have asymptotic evidence.

    Theorem 5.1 is exact for gradients with its laws, step by step. Shares of records are mixed after all steps, and the
    intervals of a chi_square population are a quadrature. So the curve is attained where the worst case gives no
    smaller power. Such gradients are not bounded. With clipping, no law of gradients is known that attains the smaller
    of both powers. The result is then a bracket, with `tight` false.
    """

    type: ClassVar[str] = "membership"
    step_curve: StepCurve = "chi_square"
    composition: Composition = "exact"
    population: tuple[WeightedSusceptibility, ...] | Literal["chi_square"] | None = None

    def __post_init__(self) -> None:
        if self.population is None or self.population == "chi_square":
            return
        if not 1 <= len(self.population) <= SUBPOPULATIONS:
            raise OutOfDomain("population", len(self.population), f"a list of 1 to {SUBPOPULATIONS} subpopulations")
        total = sum(Fraction(part.weight) for part in self.population)
        if abs(total - 1) > WEIGHT_SUM_TOLERANCE:
            raise OutOfDomain("population", float(total), "subpopulations whose weights sum to 1 (within 1e-12)")

    @override
    def own_plan(self, mechanism: AbstractMechanism, method: str, options: EngineOptions, worst: Plan | None) -> Plan:
        run = run_of(mechanism)
        engine = self._engine(run)
        known = engines_of(engine, self.step_curve)
        if method not in ("auto", *known):
            reason = f"the methods for this adversary are {', '.join(known)}."
            raise UnsupportedCombination("method", f"method {method}", reason, ("auto", *known))
        own = self._relaxed(run, options, method)
        # If the release reveals the batches, no composition of sampled steps has more power than alpha plus the chance
        # that any batch holds the record, the power of the worst case. Approximations of it may have more power.
        if run.mechanism.shows_batches and (self.composition == "exact" or not run.is_sampled):
            return replace(own, build=partial(_with_nothing_hidden, own))
        worst = worst or WORST_CASE.plan(mechanism, "auto", options)
        return Plan(own.engine, cost.larger_of(own.cost, worst.cost), partial(_larger, own, worst))

    def _engine(self, run: MembershipRun) -> str:
        """Return the name of the engine for the record of the largest susceptibility in `run`.

        The susceptibility is the squared length of a record's whitened gradient.
        """
        largest = run.susceptibility
        if self.population == "chi_square":
            largest = chi_square_reach(run.mechanism.dimension)
        elif self.population is not None:
            largest = max(part.susceptibility for part in self.population)
        return engine_of(run, largest, self.step_curve, self.composition)

    def _relaxed(self, run: MembershipRun, options: EngineOptions, method: str) -> Plan:
        """Return a plan (engine, curves and cost) for this adversary alone, without the cap by the worst case."""
        if self.population is None:
            return self._against(run, run.susceptibility, options, method)
        if self.population == "chi_square":
            return self._bracketed(run, options, method)
        total = sum(Fraction(part.weight) for part in self.population)
        shares: dict[float, Fraction] = {}
        for part in self.population:
            shares[part.susceptibility] = shares.get(part.susceptibility, Fraction(0)) + Fraction(part.weight) / total
        return self._mixed(run, shares, options, method)

    def _against(self, run: MembershipRun, susceptibility: float, options: EngineOptions, method: str) -> Plan:
        return plan_of(run, susceptibility, self.step_curve, self.composition, options, method)

    def _mixed(self, run: MembershipRun, shares: dict[float, Fraction], options: EngineOptions, method: str) -> Plan:
        options = options.for_components(len(shares))
        priced = self._against(run, max(shares), options, method)  # one plan for all of up to a thousand shares
        if len(shares) == 1:
            return priced
        return mixed_plan([priced] * len(shares), partial(self._mixture, run, shares, options, method))

    def _mixture(
        self, run: MembershipRun, shares: dict[float, Fraction], options: EngineOptions, method: str
    ) -> TradeOffPair:
        pairs = [self._against(run, susceptibility, options, method).curves for susceptibility in shares]
        return mixed(list(shares.values()), pairs, MIXED, MIX_REASON)

    def _bracketed(self, run: MembershipRun, options: EngineOptions, method: str) -> Plan:
        engine = DISCRETISED if method == DISCRETISED else self._engine(run)
        options = options.no_finer_than(POPULATION)
        few = engine != CLOSED_FORM
        model = cost.SUSCEPTIBILITIES_OF_LATTICES if few else cost.SUSCEPTIBILITIES
        return Plan(engine, model, partial(self._between, run, options, method, few=few))

    def _between(self, run: MembershipRun, options: EngineOptions, method: str, *, few: bool) -> TradeOffPair:
        """Return curves of `run`, enclosed by two mixtures over susceptibilities.

        The mixtures are at the lower and at the upper endpoints of intervals. A susceptibility is the squared length of
        a record's whitened gradient. `few` selects fewer intervals, at less cost.
        """
        population = chi_square_population(run.mechanism.dimension, FEW_CELLS if few else CELLS)
        none = Fraction(0)
        susceptibilities = sorted({*population.below, *population.above})
        pairs = [self._against(run, susceptibility, options, method).curves for susceptibility in susceptibilities]
        add = BracketedMixture(
            [
                Part(pair.add, population.below.get(susceptibility, none), population.above.get(susceptibility, none))
                for susceptibility, pair in zip(susceptibilities, pairs, strict=True)
            ],
            *(LOOSELY if few else CLOSELY),
        )
        note = BRACKETED.format(cells=len(population.below))
        source, notes = f"{MIXED}; {pairs[0].source}", (*pairs[0].notes, note)
        return TradeOffPair(add, add.reversed(), source, notes, bracket=brackets_of(pairs))

    @override
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        return WORST_CASE

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        run = run_of(mechanism)
        known: membership_premises.Known
        if self.population == "chi_square":
            known = "chi_square"
        elif self.population is not None:
            known = "population"
        else:
            known = "mean" if run.mechanism.susceptibility is None else "stated"
        approximated = self.composition != "exact"
        return (
            membership_premises.MEAN_IS_GAUSSIAN,
            membership_premises.susceptibility(known),
            membership_premises.independence(run.steps, with_noise=run.mechanism.noise_std > 0),
            *((membership_premises.STEP_APPROXIMATED,) if approximated or self.step_curve == "gaussian" else ()),
            *((membership_premises.RUN_APPROXIMATED,) if approximated and run.steps > 1 else ()),
        )


def _with_nothing_hidden(own: Plan) -> TradeOffPair:
    return replace(own.curves, notes=(*own.curves.notes, NOTHING_HIDDEN))


def _larger(own: Plan, worst: Plan) -> TradeOffPair:
    return pointwise_max_of(own.curves, worst.curves, BOTH_HOLD, BRACKET)
