"""An assessment as a section of a model card."""

from __future__ import annotations

from collections.abc import Iterator

from api_schemas.assessments import AssessedThreatModel, AssessmentsResponse
from api_schemas.policies import Decision
from api_schemas.threat_models import WorstCaseThreatModel
from service.interop.numbers import as_given, rounded_down, rounded_up
from service.interop.reports.rows import remarks, rows
from service.interop.reports.sentence import in_short


def model_card(response: AssessmentsResponse) -> str:
    """A Markdown section of level 2; what people wrote into the request is quoted with its markup taken away."""
    return "\n".join(_lines(response)) + "\n"


def _lines(response: AssessmentsResponse) -> Iterator[str]:
    yield "## Privacy"
    yield ""
    yield in_short(response)
    yield ""
    for attacked in response.threat_models:
        yield from _table(attacked, beside=attacked is not response.threat_models[0])
    if response.decision is not None:
        yield from _decision(response.decision)
    yield "### What the numbers rest on"
    yield ""
    yield "| Assumption | Holds | Vouched for by | Otherwise |"
    yield "|---|---|---|---|"
    for each in response.assumptions:
        by = " ".join(plain(part) for part in (each.by, each.when) if part is not None)
        yield f"| {cell(each.text)} | {each.holds} | {by} | {cell(each.if_not)} |"
    yield ""
    if response.hazards:
        yield "### Hazards"
        yield ""
        for hazard in response.hazards:
            yield f"- **{hazard.code}** ({hazard.status}): {hazard.text} {hazard.remedy}"
        yield ""
    yield f"<small>privacy-bounds, engine {response.engine_version}, result `{response.digest}`</small>"


def _table(attacked: AssessedThreatModel, *, beside: bool) -> Iterator[str]:
    model = attacked.threat_model
    relation = f", {model.neighboring_relation}" if beside and isinstance(model, WorstCaseThreatModel) else ""
    yield f"### Attacker: {model.type}{relation}"
    yield ""
    yield attacked.summary + (" Valid beside the worst case only." if attacked.conditional else "")
    yield ""
    yield "| | at most | at least | evidence |"
    yield "|---|---|---|---|"
    for row in rows(attacked.answers):
        lower = "" if row.lower is None else rounded_down(row.lower)
        upper = rounded_up(row.value) if row.upper is None else rounded_up(row.upper)
        yield f"| {cell(row.title)} | {upper} | {lower} | {row.evidence} |"
    yield ""
    for note in remarks(attacked.answers):
        yield note
        yield ""


def _decision(decision: Decision) -> Iterator[str]:
    yield f"### Policy: {plain(decision.name)}"
    yield ""
    yield f"Verdict: **{decision.verdict}** (decision `{decision.id}`, policy `{decision.policy}`)."
    yield ""
    yield "| Limit | Verdict | Margin |"
    yield "|---|---|---|"
    for each in decision.rulings:
        rule = each.rule
        name = (
            rule.name
            or f"{rule.question.type} {'at most' if rule.at_most is not None else 'at least'} {as_given(rule.limit)}"
        )
        margin = "" if each.margin is None else f"{each.margin:.3g}"
        yield f"| {plain(name)} ({rule.severity}) | {each.verdict} | {margin} |"
    yield ""


def cell(text: str) -> str:
    """Our own text, which may have code spans, inside a table."""
    return text.replace("|", "&#124;")


def plain(text: str) -> str:
    """What somebody wrote into a request, as Markdown and HTML show it; nor are links made of addresses."""
    return "".join(f"&#{ord(each)};" if each in "\\`*_{}[]<>#|&!~:@." else each for each in text)
