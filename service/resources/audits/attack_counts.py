"""Resource `POST /v1/audits/attack-counts`: counts of an attack, proved parameters, verdict on a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from api_schemas.assumptions_and_hazards import Assumption, Hazard
from api_schemas.attack_counts import AttackCountsRequest, AttackCountsResponse, BoundVerdict
from api_schemas.attack_rates import MeasuredRate, ProvedEpsilon, ProvedNumber
from api_schemas.audit_examples import ATTACK_COUNTS_EXAMPLES
from api_schemas.choices import EngineUsed
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.audits.counts import Rate, Region, epsilon, gdp_mu, region
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.work import at_most
from service.privacy.threat_models.relaxed import worst_case_beside
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import Computation, Quote
from service.resources.allowance import MOST_WORK, WorkBudgetShares
from service.resources.caveats import caveats
from service.resources.curve_points import points_of
from service.resources.disputed import refuse_disputed
from service.resources.estimates import quote, unpriced
from service.resources.numbers import enclosed_number, notes_for, tightness
from service.resources.parts import assumptions_of, attribute_error, mechanism_of, threat_model_of, worst_case_spec

METHOD: Final = "auto"
COUNTING_COST: Final = 600
CURVES_READ: Final = 2
"""Evaluated points: one in each orientation."""

TRIALS_INDEPENDENT: Final = Assumption(
    code="trials_are_independent",
    text="The trials are independent, each with its own run of the mechanism, and the attack was fixed before the "
    "trials. Trials that share a run depend on each other, and the stated confidence does not hold for them.",
    holds="unknown",
)
SOURCE: Final = (
    "Clopper and Pearson 1934, Bonferroni; Dong, Roth and Su 2022 (GDP); Kairouz, Oh and Viswanath 2015 (epsilon)"
)
ABOVE: Final = (
    "An attack above the bound shows a defect of the training or the accounting. Either an assumption does not "
    "hold, or the mechanism was not the one that was run."
)
ABOVE_RELAXED: Final = (
    f"{ABOVE} If the worst case is consistent with the counts, the attacker may be stronger than this threat "
    "model assumes."
)
NO_BOUND: Final = "The curve is an approximation without bounds, and so is the verdict."
CONSISTENT: Final = "Counts that are consistent with the bound do not prove the bound. A better attack may exist."
NOTHING_PROVED: Final = "The counts prove nothing. At this confidence, guessing explains them."


def _compute_attack_counts(request: AttackCountsRequest, digest: str, engine_version: str) -> AttackCountsResponse:
    counts = request.true_positives, request.members, request.false_positives, request.non_members
    rates = region(*counts, request.confidence)
    mu = gdp_mu(rates)
    deltas = [0.0] if request.delta in (None, 0.0) else [0.0, request.delta]
    held = _held_against(request, rates)
    return AttackCountsResponse(
        digest=digest,
        engine_version=engine_version,
        true_positive_rate=_measured(rates.true_positive_rate),
        false_positive_rate=_measured(rates.false_positive_rate),
        confidence=request.confidence,
        gdp_mu=_proved(mu),
        epsilons=tuple(ProvedEpsilon(**_proved(epsilon(rates, delta)), delta=delta) for delta in deltas),
        evidence=Evidence.STATISTICAL.value,
        tight=tightness(Evidence.STATISTICAL, None),
        source=SOURCE,
        mechanism=request.mechanism,
        bound=held.bound,
        worst_case=held.worst_case,
        assumptions=held.assumptions,
        hazards=held.hazards,
        notes=(NOTHING_PROVED,) if mu.lower == 0 else (),
    )


@dataclass(frozen=True, slots=True)
class _ClaimVerdicts:
    """Verdicts on the mechanism that a request claims, and the assumptions and hazards behind them.

    `bound` is the verdict for the claimed attacker, and `worst_case` that for the strongest attacker. Both are None if
    the request claims no mechanism.
    """

    bound: BoundVerdict | None = None
    worst_case: BoundVerdict | None = None
    assumptions: tuple[Assumption, ...] = (TRIALS_INDEPENDENT,)
    hazards: tuple[Hazard, ...] = ()


def _held_against(request: AttackCountsRequest, rates: Region) -> _ClaimVerdicts:
    spec, attacker = request.mechanism, request.threat_model
    if spec is None or attacker is None:
        return _ClaimVerdicts()
    mechanism = mechanism_of(spec)
    try:
        refuse_disputed(spec, attacker)
        threat_model = threat_model_of(attacker)
        worst_case = worst_case_beside(threat_model, mechanism)
        with at_most(MOST_WORK) as work:
            shares = WorkBudgetShares(work, 2)
            with shares.next_share():
                curves = threat_model.curves(mechanism, METHOD)
                bound = _verdict(rates, curves, attacker, relaxed=worst_case is not None)
            beside = None
            if worst_case is not None:
                with shares.next_share():
                    curves = worst_case.curves(mechanism, METHOD)
                    beside = _verdict(rates, curves, worst_case_spec(worst_case), relaxed=False)
    except PrivacyComputationError as error:
        raise attribute_error(error, "/threat_model", attacker) from None
    known = caveats(mechanism, threat_model)
    assumptions = (TRIALS_INDEPENDENT, *known.assumptions, *assumptions_of(threat_model, mechanism))
    return _ClaimVerdicts(bound, beside, assumptions, known.hazards)


def _measured(rate: Rate) -> MeasuredRate:
    return MeasuredRate(estimate=rate.estimate, lower=rate.lower, upper=rate.upper)


def _proved(number: Enclosure) -> ProvedNumber:
    return ProvedNumber(value=number.lower, lower=number.lower, upper=number.upper)


def _verdict(rates: Region, curves: TradeOffPair, attacker: ThreatModelSpec, *, relaxed: bool) -> BoundVerdict:
    curve = curves.add  # H0 is the data without the record
    sides, asked = rates.oriented(), curves.second_uses
    read = points_of(curves, "add", np.array([side.false_positive_rate.upper for side in sides]))
    excesses = [
        # Near one, complements resolve the rates.
        max(
            side.true_positive_rate.lower - float(read.power.upper[place]),
            float(read.type_two_error.lower[place]) - side.true_positive_rate.complement_upper,
        )
        for place, side in enumerate(sides)
    ]
    place = int(np.argmax(excesses))
    above = excesses[place] > 0
    evidence = Evidence.weakest(curve.evidence, Evidence.STATISTICAL)
    notes = [(ABOVE_RELAXED if relaxed else ABOVE) if above else CONSISTENT]
    if curve.evidence is Evidence.ASYMPTOTIC:
        notes.append(NO_BOUND)
    return BoundVerdict(
        threat_model=attacker,
        verdict="above_the_bound" if above else "consistent",
        orientation="reversed" if place else "as_given",
        false_positive_rate=sides[place].false_positive_rate.upper,
        power_proved=sides[place].true_positive_rate.lower,
        power_bound=enclosed_number(read.power.at(place, curve.evidence), "upper"),
        evidence=evidence.value,
        tight=tightness(evidence, curves.bracket),
        method=cast("EngineUsed", curve.method),
        source=curves.source,
        conditional=relaxed,
        notes=(*notes, *notes_for(curves, curve.evidence), *curves.notes_since(asked)),
    )


def _attack_counts_quote(request: AttackCountsRequest) -> Quote:
    if request.mechanism is None or request.threat_model is None:
        return Quote(COUNTING_COST, inline=True)
    long = unpriced(request.mechanism, [request.threat_model], CURVES_READ)
    if long is not None:
        return long
    mechanism, threat_model = mechanism_of(request.mechanism), threat_model_of(request.threat_model)
    try:
        worst_case = worst_case_beside(threat_model, mechanism)
        models = [threat_model] if worst_case is None else [threat_model, worst_case]
        plans = [model.plan(mechanism, METHOD) for model in models]
    except PrivacyComputationError as error:
        raise attribute_error(error, "/threat_model", request.threat_model) from None
    return quote(plans, lambda model: model.build + CURVES_READ * model.readings().point, COUNTING_COST)


ATTACK_COUNTS: Final = Computation(
    name="attack_counts_audit",
    path="/v1/audits/attack-counts",
    description="Compute the privacy parameters that the counts of an attack prove, and compare the counts with a "
    "bound.",
    examples=ATTACK_COUNTS_EXAMPLES,
    request_type=AttackCountsRequest,
    response_type=AttackCountsResponse,
    function=_compute_attack_counts,
    quote=_attack_counts_quote,
)
