"""Numbers of an assessment for documents of other standards, and the cautions about them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple, final

from api_schemas.assessments import AssessedHazard, AssessedThreatModel, AssessmentsResponse, GdpSummary
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.documents.rows import ReportRow, rows
from service.rendering.numbers import format_exact
from service.rendering.sentences.void import is_refuted, refuted

EPSILON: Final = "epsilon"
"""Key of the metric epsilon."""


@final
class Metric(NamedTuple):
    """Number of an assessment, with the attacker that it bounds.

    `is_conditional` is whether the attacker is weaker than the worst case, so that the number is only shown beside that
    of the worst case. `row` has its title and bounds.
    """

    attacker: str
    is_conditional: bool
    row: ReportRow

    @property
    def is_proved(self) -> bool:
        """Whether the number is a proved and finite bound."""
        return self.row.upper is not None and math.isfinite(self.row.value)

    @property
    def title(self) -> str:
        """Title of the number, with the name of the attacker that the number bounds."""
        beside = ", valid only together with the worst case" if self.is_conditional else ""
        return f"{self.row.title} (attacker {self.attacker}{beside})"


def is_bounded(response: AssessmentsResponse) -> bool:
    """Return whether any number of an assessment is a valid bound.

    The result is False if nothing is proved about the run, and if the verdict of a policy is `void`.
    """
    return response.summary.bounded and response.verdict != "void"


def metrics(response: AssessmentsResponse) -> list[Metric]:
    """Return the finite and informative bounds of an assessment.

    Epsilon at delta 1 is left out as uninformative. An attacker is omitted if an assumption about this attacker does
    not hold. The list is empty if nothing is proved.
    """
    return [each for each in _metrics_of_attackers(response) if not each.row.says_nothing and each.is_proved]


def has_epsilon(response: AssessmentsResponse) -> bool:
    """Return whether the metrics of an assessment contain an epsilon against the worst case.

    Weaker attackers do not count.
    """
    worst = _attacker(response.threat_models[0])
    return any(each.row.key == EPSILON and each.attacker == worst for each in metrics(response))


def cautions(response: AssessmentsResponse) -> list[str]:
    """Return cautions about the numbers of an assessment, or the reasons why there are none.

    Cautions are unproved or uninformative numbers, unattested assumptions and present hazards. No sentence is repeated.
    """
    if not is_bounded(response):
        sentences = [f"{each.code} is attested not to hold. {each.if_not}" for each in refuted(response.assumptions)]
    else:
        sentences = list(_beside_numbers(response))
    sentences += [f"{each.title} {each.effect_text}" for each in present_hazards(response)]
    return list(dict.fromkeys(sentences))


def present_hazards(response: AssessmentsResponse) -> list[AssessedHazard]:
    """Return the hazards of an assessment that are present.

    If the assessment proves no bound, return only the hazards that are the reason (effect `no_bound`).
    """
    present = [each for each in response.hazards if each.status == "present"]
    return present if is_bounded(response) else [each for each in present if each.effect == "no_bound"]


def _beside_numbers(response: AssessmentsResponse) -> Iterator[str]:
    if response.judged_as is not None:
        yield response.judged_as.text
    for each in _metrics_of_attackers(response):
        if each.row.says_nothing:
            yield (
                f"{each.title}: every release has epsilon 0 at delta 1. This number is no guarantee, and is not listed."
            )
        elif not each.is_proved:
            yield f"{each.title}: no finite number is proved, so none is listed."
    for each in response.assumptions:
        if each.holds == "unknown":
            yield f"This assumption is not attested: {each.text}"


def subject_name(response: AssessmentsResponse) -> str:
    """Return the name of the subject, or the run in words for a request without a subject."""
    subject = response.context.subject
    return response.summary.title if subject is None else subject.name


def _metrics_of_attackers(response: AssessmentsResponse) -> Iterator[Metric]:
    if not is_bounded(response):
        return
    first = response.threat_models[0]
    for attacked in response.threat_models:
        if not is_refuted(attacked):
            for row in rows(attacked.answers):
                yield Metric(_attacker(attacked), attacked.conditional, row)
        if attacked is first and response.gdp is not None:
            for row in _gdp_rows(response.gdp):
                yield Metric(_attacker(attacked), attacked.conditional, row)


def _gdp_rows(gdp: GdpSummary) -> Iterator[ReportRow]:
    where = f"where both error rates are at least {format_exact(gdp.smallest_rate)}"
    named = (
        (f"mu of Gaussian differential privacy {where}", "gdp_mu", gdp.mu),
        (f"Regret of that mu {where}", "gdp_regret", gdp.regret),
    )
    for title, key, number in named:
        ends = number["value"], number["lower"], number["upper"]
        yield ReportRow(title, key, *ends, gdp.evidence, is_share=False)


def _attacker(attacked: AssessedThreatModel) -> str:
    model = attacked.threat_model
    return f"{model.type}, {model.neighboring_relation}" if isinstance(model, WorstCaseThreatModel) else model.type
