"""Assessments as a section of a model card in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from api_schemas.assessments import AssessedThreatModel, AssessmentsResponse
from api_schemas.policies import Decision
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.documents.escaping import cell, plain, prose
from service.rendering.documents.hazards import shown_hazards
from service.rendering.documents.rows import remarks, rows
from service.rendering.sentences.guarantee import gdp_sentence
from service.rendering.sentences.outcome import margin_text, outcome
from service.rendering.sentences.void import NOT_THIS_ATTACKER, is_refuted

ATTACKERS: Final[Mapping[str, str]] = {
    "worst_case": "worst case",
    "glrt": "direction unknown (GLRT)",
    "membership": "data unknown (GMIP)",
    "practical": "candidates known (PMP)",
    "mixture": "a mixture of attackers",
}
RELATIONS: Final[Mapping[str, str]] = {
    "add_or_remove_one": "a record added or removed",
    "replace_one": "a record replaced",
    "zero_out": "a record emptied",
}


def model_card(response: AssessmentsResponse) -> str:
    """Return an assessment as a Markdown section of level 2 for a model card.

    Texts from the request are escaped. If nothing is proved about the run, the section has no numbers.
    """
    return "\n".join(_lines(response)) + "\n"


def _lines(response: AssessmentsResponse) -> Iterator[str]:
    is_bounded, changed = response.summary.bounded, response.judged_as
    yield "## Privacy"
    yield ""
    yield prose(response.summary.paragraph)
    yield ""
    if changed is not None and changed.text not in response.summary.paragraph:
        yield changed.text
        yield ""
    if is_bounded:
        for attacked in response.threat_models:
            yield from _table(attacked, beside=attacked is not response.threat_models[0])
        if response.gdp is not None:
            yield gdp_sentence(response.gdp.model_dump())
            yield ""
    if response.decision is not None:
        yield from _decision(response.decision, is_bounded=is_bounded)
    yield from _assumption_table(response)
    hazards = shown_hazards(response)
    if hazards:
        yield "### Hazards"
        yield ""
        for each in hazards:
            yield f"- **{each.title}** ({each.status}) {' '.join((*each.texts, each.remedy))}"
        yield ""
    yield f"<small>privacy-bounds, engine {response.engine_version}, result `{response.digest}`</small>"


def _assumption_table(response: AssessmentsResponse) -> Iterator[str]:
    is_bounded = response.summary.bounded
    yield "### Assumptions of the numbers" if is_bounded else "### Assumptions"
    yield ""
    yield f"| Assumption | Holds | Attested by |{' Otherwise |' if is_bounded else ''}"
    yield f"|---|---|---|{'---|' if is_bounded else ''}"
    for each in response.assumptions:
        by = " ".join(plain(part) for part in (each.by, each.when) if part is not None)
        otherwise = f" {cell(each.if_not)} |" if is_bounded else ""
        yield f"| {cell(each.text)} | {each.holds} | {by} |{otherwise}"
    yield ""


def _table(attacked: AssessedThreatModel, *, beside: bool) -> Iterator[str]:
    model = attacked.threat_model
    relation = (
        f", {RELATIONS[model.neighboring_relation]}" if beside and isinstance(model, WorstCaseThreatModel) else ""
    )
    yield f"### Attacker: {ATTACKERS[model.type]}{relation}"
    yield ""
    if is_refuted(attacked):
        yield f"{attacked.summary} {NOT_THIS_ATTACKER}"
        yield ""
        return
    yield attacked.summary + (" Valid only together with the worst case." if attacked.conditional else "")
    yield ""
    yield "| | at most | at least | evidence |"
    yield "|---|---|---|---|"
    for row in rows(attacked.answers):
        yield f"| {cell(row.title)} | {row.at_most} | {row.at_least} | {row.evidence} |"
    yield ""
    for note in remarks(attacked.answers):
        yield note
        yield ""


def _decision(decision: Decision, *, is_bounded: bool) -> Iterator[str]:
    yield f"### Policy: {plain(decision.name)}"
    yield ""
    yield f"**{prose(decision.sentence)}**"
    yield ""
    if decision.missing:
        yield f"Missing attestations: {', '.join(f'`{code}`' for code in decision.missing)}."
        yield ""
    if is_bounded:
        yield "| Limit | Result |"
        yield "|---|---|"
        for each in decision.rulings:
            rule = each.rule
            name = "" if rule.name is None else f"{plain(rule.name)}: "
            stands = outcome(each.verdict, rule.severity, margin_text(rule.limit, each.margin))
            yield f"| {name}{prose(each.meaning)} | {stands} |"
        yield ""
    yield f"Decision `{decision.id}`, policy `{decision.policy}`."
    yield ""
