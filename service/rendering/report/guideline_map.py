"""Map from clauses of guidelines to the sections of the report that answer them. The map claims no conformity."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from api_schemas.assessments import AssessmentsResponse
from service.rendering.charts.series import ATTACKERS
from service.rendering.sentences.units import unit_name


@final
class Clause(NamedTuple):
    """Requirement of a guideline, with the section and the sentence of the report that answer the requirement.

    If the report has no answer, `place` is empty and `answer` says why.
    """

    requirement: str
    place: str
    answer: str


@final
class Guideline(NamedTuple):
    """Document with the clauses that the report addresses."""

    name: str
    clauses: tuple[Clause, ...]


NOT_SEEN: Final = "Not covered: this service receives the description of the run, not its environment."
NOT_PROVED: Final = "No answer: nothing is proved about this run."
OF_NUMBERS: Final = frozenset(
    {
        "Privacy parameters",
        "Privacy risk is examined",
        "Likelihood",
        "Residual risk after controls",
        "6.2 Threat modelling",
        "7.3.2 Maximum or average risk",
        "7.3.3 Population or sample-based attack",
        "8.2.2 Quantifying identifiability",
    }
)
"""Clauses that numbers, or the attackers behind the numbers, answer."""


def guidelines(response: AssessmentsResponse) -> tuple[Guideline, ...]:
    """Return the clauses of NIST SP 800-226, NIST AI RMF 1.0 and ISO/IEC 27559:2022 with their answers.

    If nothing is proved about the run, the answer to clauses that ask for numbers is that nothing is proved.
    """
    found = _nist_sp_800_226(response), _nist_ai_rmf_measure_2_10(response), _iso_iec_27559()
    return found if response.summary.bounded else tuple(map(_without_numbers, found))


def _without_numbers(guideline: Guideline) -> Guideline:
    clauses = (
        each._replace(place="", answer=NOT_PROVED) if each.requirement in OF_NUMBERS else each
        for each in guideline.clauses
    )
    return guideline._replace(clauses=tuple(clauses))


def _nist_sp_800_226(response: AssessmentsResponse) -> Guideline:
    present = sum(each.status == "present" for each in response.hazards)
    unknown = sum(each.holds == "unknown" for each in response.assumptions)
    return Guideline(
        "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025)",
        (
            Clause("Privacy parameters", "Statement, 3", "Epsilon at delta, and mu for all pairs at once."),
            Clause(
                "Unit of privacy", "Statement, 2", f"{unit_name(response.context)}, with its neighbouring relation."
            ),
            Clause(
                "Algorithms and correctness",
                "Assumptions",
                f"Assumptions: {len(response.assumptions)}, of which {unknown} are not attested.",
            ),
            Clause(
                "Privacy hazards",
                "Hazards",
                f"{present} present, {len(response.hazards) - present} not excluded by the request.",
            ),
            Clause("Trust model", "Statement, 1", "Central model: the operator of the mechanism sees the data."),
            Clause("Security, access control, data collection", "", NOT_SEEN),
        ),
    )


def _nist_ai_rmf_measure_2_10(response: AssessmentsResponse) -> Guideline:
    attackers = ", ".join(dict.fromkeys(ATTACKERS[each.threat_model.type] for each in response.threat_models))
    return Guideline(
        "NIST AI Risk Management Framework 1.0, MEASURE 2.10",
        (
            Clause("Privacy risk is examined", "Attackers", f"By attacker: {attackers}."),
            Clause("Likelihood", "In short", "Upper bounds on membership inference and reconstruction."),
            Clause("Residual risk after controls", "In short", "All numbers are for the run with its noise."),
            Clause("It is documented", "To repeat it", "Request, digest and command reproduce the numbers."),
        ),
    )


def _iso_iec_27559() -> Guideline:
    return Guideline(
        "ISO/IEC 27559:2022, Privacy enhancing data de-identification framework",
        (
            Clause("6.2 Threat modelling", "Attackers", "The attackers, their knowledge, and the consequences."),
            Clause("7.3.2 Maximum or average risk", "Attackers", "Maximum: over all data sets and records."),
            Clause(
                "7.3.3 Population or sample-based attack",
                "Attackers",
                "The worst case knows every other record. Relaxed attackers state what they do not know.",
            ),
            Clause(
                "8.2.2 Quantifying identifiability",
                "In short",
                "Three numbers, each with a lower and an upper bound.",
            ),
            Clause(
                "8.2.3 Adversarial testing",
                "",
                "Not part of this report: /v1/audits compares counts of an attack with these bounds.",
            ),
            Clause("8.3.4 Re-evaluation", "To repeat it", "The same request to a later engine version shows changes."),
        ),
    )
