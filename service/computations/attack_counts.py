"""`POST /v1/audits/attack-counts`: counts -> region of rates -> what they prove, and the verdict on a mechanism."""

from __future__ import annotations

from typing import Final

import numpy as np

from api_schemas.attack_counts import AttackCountsRequest, AttackCountsResponse
from api_schemas.bounds import Assumption
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from service.computations.abstract import Computation, ResponseFields
from service.computations.caveats import caveats
from service.computations.numbers import enclosed_number
from service.computations.parts import blamed, mechanism_of, threat_model_of
from service.privacy.audits.counts import Rate, Region, epsilon, gdp_mu, region
from service.privacy.composition.cost import tariff
from service.privacy.composition.options import EngineOptions
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import PrivacyComputationError

METHOD: Final = "auto"
WORST_CASE: Final[str] = "worst_case"
COUNTING_COST: Final = 300
CURVES_READ: Final = 2
"""A point in each orientation."""

TRIALS_INDEPENDENT: Final = Assumption(
    text="The trials are independent, each with its own run of what is attacked, and the attack was fixed before it "
    "was counted. Trials that share a run depend on each other, and the confidence is then not the stated one.",
    holds="unknown",
)
SOURCE: Final = (
    "Clopper and Pearson 1934, Bonferroni; Dong, Roth and Su 2022 (GDP); Kairouz, Oh and Viswanath 2015 (epsilon)"
)
ABOVE: Final = (
    "An attack above the bound is a defect of the training or the accounting: one of the assumptions does not hold, or "
    "the mechanism is not the one that was run."
)
CONSISTENT: Final = "Counts that are consistent with the bound do not prove it: a better attack may exist."
NOTHING_PROVED: Final = "The counts prove nothing: at this confidence, guessing explains them."


def compute_attack_counts(request: AttackCountsRequest, digest: str, engine_version: str) -> ResponseFields:
    """Say what the counts prove. Raises with the pointer of the part of the mechanism that cannot be served."""
    counts = request.true_positives, request.members, request.false_positives, request.non_members
    rates = region(*counts, request.confidence)
    mu = gdp_mu(rates)
    deltas = [0.0] if request.delta in (None, 0.0) else [0.0, request.delta]
    mechanism, threat_model = request.mechanism, request.threat_model
    bound = worst_case = None
    if mechanism is not None and threat_model is not None:
        bound = _verdict(rates, mechanism, threat_model)
        if threat_model.type != WORST_CASE:
            worst_case = _verdict(rates, mechanism, WorstCaseThreatModel(type="worst_case"))
    known = None if mechanism is None else caveats(mechanism)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "true_positive_rate": _measured(rates.true_positive_rate),
        "false_positive_rate": _measured(rates.false_positive_rate),
        "confidence": request.confidence,
        "gdp_mu": _proved(mu),
        "epsilons": [{**_proved(epsilon(rates, delta)), "delta": delta} for delta in deltas],
        "evidence": Evidence.STATISTICAL,
        "source": SOURCE,
        "mechanism": mechanism,
        "bound": bound,
        "worst_case": worst_case,
        "assumptions": (TRIALS_INDEPENDENT, *(() if known is None else known.assumptions)),
        "hazards": () if known is None else known.hazards,
        "notes": (NOTHING_PROVED,) if mu.lower == 0 else (),
    }


def _measured(rate: Rate) -> ResponseFields:
    return {"estimate": rate.estimate, "lower": rate.lower, "upper": rate.upper}


def _proved(number: Enclosure) -> ResponseFields:
    return {"value": number.lower, "lower": number.lower, "upper": number.upper}


def _verdict(rates: Region, mechanism: MechanismSpec, threat_model: ThreatModelSpec) -> ResponseFields:
    try:
        curves = threat_model_of(threat_model).curves(mechanism_of(mechanism), METHOD, EngineOptions())
        curve = curves.add  # H0 is the data without the record
        sides = rates.oriented()
        read = curve.points(np.array([side.false_positive_rate.upper for side in sides]))
    except PrivacyComputationError as error:
        raise blamed(error, "/threat_model", threat_model) from None
    excesses = [
        # Near one the rates are told apart by their complements.
        max(
            side.true_positive_rate.lower - float(read.power.upper[place]),
            float(read.type_two_error.lower[place]) - side.true_positive_rate.complement_upper,
        )
        for place, side in enumerate(sides)
    ]
    place = int(np.argmax(excesses))
    above = excesses[place] > 0
    return {
        "threat_model": threat_model,
        "verdict": "above_the_bound" if above else "consistent",
        "orientation": ("as_given", "reversed")[place],
        "false_positive_rate": sides[place].false_positive_rate.upper,
        "power_proved": sides[place].true_positive_rate.lower,
        "power_bound": enclosed_number(read.power.at(place, curve.evidence), "upper"),
        "evidence": Evidence.weakest(curve.evidence, Evidence.STATISTICAL),
        "method": curve.method,
        "source": curves.source,
        "notes": (ABOVE if above else CONSISTENT, *curves.notes),
    }


def attack_counts_cost(request: AttackCountsRequest) -> int:
    """Estimated work in units of about one microsecond of CPU time."""
    if request.mechanism is None:
        return COUNTING_COST
    asked = tariff(mechanism_of(request.mechanism), METHOD, EngineOptions())
    bounds = 1 if request.threat_model is None or request.threat_model.type == WORST_CASE else 2
    return COUNTING_COST + bounds * (asked.base + CURVES_READ * asked.directed.point)


ATTACK_COUNTS: Final = Computation(
    name="attack_counts_audit",
    request_type=AttackCountsRequest,
    response_type=AttackCountsResponse,
    function=compute_attack_counts,
    cost=attack_counts_cost,
)
