"""HTML report: values for its template, and the rendered page.

Jinja escapes every value. Only two values are inserted without escaping. They are the style sheet, a file of this
package, and the images, in which the chart engine has escaped every text. An image that is not SVG is rejected.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup, escape

from api_schemas.assessments import AssessedThreatModel, AssessmentsRequest, AssessmentsResponse
from api_schemas.policies import Policy
from service.rendering.chart_images import with_stable_ids
from service.rendering.charts.series import ATTACKERS, attackers
from service.rendering.charts.style import Spec
from service.rendering.documents.hazards import shown_hazards
from service.rendering.documents.rows import ReportRow, rows
from service.rendering.numbers import SHOWN, format_exact, percent_exact, percent_up, rounded_up
from service.rendering.report.guideline_map import guidelines
from service.rendering.report.headline_numbers import headline_numbers
from service.rendering.sentences.outcome import margin_text, outcome
from service.rendering.sentences.units import protected
from service.rendering.sentences.void import NOT_THIS_ATTACKER, is_refuted
from service.resources.digest import canonical_text

AGREEING: Final = 1e-5
LONGEST_REQUEST: Final = 20_000


def render_report(
    response: AssessmentsResponse, charts: Sequence[Spec], drawings: Sequence[bytes], shown: list[str]
) -> bytes:
    """Render the HTML page of an assessment, and return its bytes.

    `charts` are Vega-Lite specifications, `drawings` has an SVG for each of them, and `shown` the digests of all
    results. If nothing is proved about the run, the page has no results in numbers. Raise ValueError for a drawing that
    is no plain SVG element.
    """
    request = canonical_text(request_of(response))
    page = _template().render(
        policy=Markup(_saved_policy()),  # noqa: S704 - made here
        style=Markup(_style()),  # noqa: S704 - a file of this room
        title=_report_title(response),
        about=_named_facts(response),
        unit=protected(response.context, response.judged_threat_model),
        response=response,
        rulings=_ruling_fields(response),
        figures=headline_numbers(response),
        statement=_titles_and_items(response.statement),
        drawings=[
            {"name": chart["name"], "description": chart["description"], "svg": _inserted(drawing, chart["name"])}
            for chart, drawing in zip(charts, drawings, strict=True)
        ],
        attackers=attackers([each.threat_model for each in response.threat_models]),
        refuted=[is_refuted(each) for each in response.threat_models],
        not_this_attacker=NOT_THIS_ATTACKER,
        names=ATTACKERS,
        attested={each.code for each in response.context.attested},
        table=_table_rows(response.threat_models),
        evidence=[_evidence(each) for each in response.threat_models],
        wide=_is_wide,
        one_point=_one_point_sentence(response),
        hazards=shown_hazards(response),
        guidelines=guidelines(response),
        request=request[:LONGEST_REQUEST],
        left_out=max(len(request) - LONGEST_REQUEST, 0),
        shown=shown,
    )
    return page.encode()


def request_of(response: AssessmentsResponse) -> AssessmentsRequest:
    """Return the request of an assessment from its response, with the defaults filled in.

    The request has the digest of the response. Rules of a policy are those of the decision, in its order.
    """
    decision = response.decision
    policy: dict[str, Any] = {}
    if decision is not None:
        rules = tuple(each.rule for each in decision.rulings)
        policy["policy"] = Policy(
            name=decision.name, revision=decision.revision, requires=decision.requires, rules=rules
        )
    return AssessmentsRequest(
        mechanism=response.mechanism,
        threat_model=response.threat_model,
        context=response.context,
        relative_tolerance=response.relative_tolerance,
        **policy,
    )


@cache
def _saved_policy() -> str:
    # stands inside the report, so that it also protects a saved copy
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def content_security_policy() -> str:
    """Return the content security policy of a report for the HTTP header. Only a header can forbid framing."""
    return f"{_saved_policy()}; frame-ancestors 'none'"


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("service.rendering.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["spans"] = _with_code_spans
    return environment.get_template("report.html")


@cache
def _style() -> str:
    return files("service.rendering.report").joinpath("report.css").read_text("utf-8")


def _inserted(drawing: bytes, name: str) -> Markup:
    text = drawing.decode()
    if not re.fullmatch(r"<svg [^>]*>.*</svg>\s*", text, re.DOTALL) or re.search(
        r"<(script|foreignObject|image|a)\b", text
    ):
        raise ValueError("what was to be inserted as a drawing is none")
    return Markup(with_stable_ids(text, f"{name}-"))  # noqa: S704 - its texts are escaped


def _titles_and_items(statement: str) -> list[tuple[str, list[str]]]:
    # an item begins with "- ", and indented lines continue it
    found: list[tuple[str, list[str]]] = []
    for line in statement.splitlines():
        if line.startswith("- "):
            found[-1][1].append(line.removeprefix("- "))
        elif line.startswith("  "):
            found[-1][1][-1] += " " + line.strip()
        else:
            found.append((line, []))
    return found


def _table_rows(attacked: Sequence[AssessedThreatModel]) -> list[tuple[str, list[ReportRow | None]]]:
    # None: the attacker has no such number, or an assumption about the attacker does not hold
    columns = [{} if is_refuted(each) else {row.key: row for row in rows(each.answers)} for each in attacked]
    return [(row.title, [column.get(key) for column in columns]) for key, row in columns[0].items()]


def _is_wide(row: ReportRow) -> bool:
    return (
        not row.says_nothing
        and row.lower is not None
        and row.upper is not None
        and row.upper - row.lower > AGREEING * row.upper
    )


def _evidence(attacked: AssessedThreatModel) -> str:
    return "" if is_refuted(attacked) else ", ".join(dict.fromkeys(row.evidence for row in rows(attacked.answers)))


def _with_code_spans(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def _ruling_fields(response: AssessmentsResponse) -> list[dict[str, str | None]]:
    if response.decision is None or not response.summary.bounded:
        return []
    return [
        {
            "name": each.rule.name,
            "meaning": each.meaning,
            "verdict": each.verdict,
            "outcome": outcome(each.verdict, each.rule.severity, ""),
            "margin": margin_text(each.rule.limit, each.margin),
        }
        for each in response.decision.rulings
    ]


def _one_point_sentence(response: AssessmentsResponse) -> str | None:
    point = response.one_point
    if point is None:
        return None
    return (
        f"From epsilon {rounded_up(point.epsilon, SHOWN)} at delta {format_exact(response.context.delta)} alone, an "
        f"attack could identify {percent_up(point.power_from_one_point)} of the members at a false positive rate of "
        f"{percent_exact(point.false_positive_rate)}. From the whole run, an attack identifies at most "
        f"{percent_up(point.power)}."
    )


def _report_title(response: AssessmentsResponse) -> str:
    subject = response.context.subject
    if subject is None:
        return response.summary.title
    return subject.name if subject.version is None else f"{subject.name}, {subject.version}"


def _named_facts(response: AssessmentsResponse) -> list[tuple[str, str]]:
    context, subject = response.context, response.context.subject
    found = [
        ("Run", None if subject is None else response.summary.title),
        ("Date", context.date),
        ("Prepared by", context.prepared_by),
        ("Address", None if subject is None else subject.uri),
        ("SHA-256", None if subject is None else subject.sha256),
    ]
    return [(name, text) for name, text in found if text is not None]
