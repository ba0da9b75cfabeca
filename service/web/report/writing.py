"""The report itself: values for its template, and the page that comes of them.

Jinja escapes whatever stands in a value. Only two things are inserted as they are: the style sheet, which is a file of
this room, and drawings, in which the drawing engine has escaped every text; a drawing that is no SVG is refused.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from api_schemas.assessments import AssessedThreatModel, AssessmentsRequest, AssessmentsResponse, Consequence
from api_schemas.policies import Policy
from service.computations.digest import canonical_text
from service.interop.numbers import as_given, rounded_down, rounded_up
from service.interop.reports.rows import Row, rows
from service.interop.reports.sentence import in_short
from service.web.charts.series import attackers, described
from service.web.charts.style import Spec
from service.web.drawing import renumbered
from service.web.report.clauses import guidelines
from service.web.report.figures import figures

AGREEING: Final = 1e-5
LONGEST_REQUEST: Final = 20_000
VERDICTS: Final = {
    "met": "Every limit of the policy is kept.",
    "violated": "A limit of the policy is surely exceeded.",
    "undecided": "A limit of the policy lies inside an enclosure: it is neither surely kept nor surely exceeded.",
    "void": "Something that the numbers rest on is said not to hold: no number here says anything.",
}


def report(response: AssessmentsResponse, charts: Sequence[Spec], drawings: Sequence[bytes], shown: list[str]) -> bytes:
    """The page. `drawings`: an SVG for each chart; `shown`: the digests of all results that are shown."""
    request = canonical_text(request_of(response))
    page = _template().render(
        style=Markup(_style()),  # noqa: S704 - a file of this room
        run=described(response.mechanism, longest=400),
        response=response,
        short=in_short(response),
        verdicts=VERDICTS,
        rulings=[] if response.decision is None else list(map(_ruling, response.decision.rulings)),
        figures=figures(response),
        statement=_sections(response.statement),
        drawings=[
            {"name": chart["name"], "description": chart["description"], "svg": _inserted(drawing, chart["name"])}
            for chart, drawing in zip(charts, drawings, strict=True)
        ],
        attackers=attackers([each.threat_model for each in response.threat_models]),
        table=_table(response.threat_models),
        evidence=[_evidence(each) for each in response.threat_models],
        wide=_is_wide,
        told_number=_told_number,
        guidelines=guidelines(response),
        request=request[:LONGEST_REQUEST],
        left_out=max(len(request) - LONGEST_REQUEST, 0),
        shown=shown,
    )
    return page.encode()


def request_of(response: AssessmentsResponse) -> AssessmentsRequest:
    """The request that is answered, with its defaults: its digest is that of the response."""
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
def content_security_policy() -> str:
    """Nothing is loaded, nothing runs, and the style is the one of this room."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("service.web.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"up": rounded_up, "down": rounded_down, "given": as_given, "spans": _spans}
    return environment.get_template("report.html")


@cache
def _style() -> str:
    return files("service.web.report").joinpath("report.css").read_text("utf-8")


def _inserted(drawing: bytes, name: str) -> Markup:
    text = drawing.decode()
    if not re.fullmatch(r"<svg [^>]*>.*</svg>\s*", text, re.DOTALL) or re.search(
        r"<(script|foreignObject|image|a)\b", text
    ):
        raise ValueError("what was to be inserted as a drawing is none")
    return Markup(renumbered(text, f"{name}-"))  # noqa: S704 - its texts are escaped


def _sections(statement: str) -> list[tuple[str, list[str]]]:
    """The plain text of a statement as titles and items."""
    found: list[tuple[str, list[str]]] = []
    for line in statement.splitlines():
        if line.startswith("- "):
            found[-1][1].append(line.removeprefix("- "))
        elif line.startswith("  "):
            found[-1][1][-1] += " " + line.strip()
        else:
            found.append((line, []))
    return found


def _table(attacked: Sequence[AssessedThreatModel]) -> list[tuple[str, list[Row | None]]]:
    """A row for each number of the worst case, with what each attacker gains."""
    columns = [{row.key: row for row in rows(each.answers)} for each in attacked]
    return [(row.title, [column.get(key) for column in columns]) for key, row in columns[0].items()]


def _is_wide(row: Row) -> bool:
    """Whether both ends differ within the first five digits."""
    return row.lower is not None and row.upper is not None and row.upper - row.lower > AGREEING * row.upper


def _evidence(attacked: AssessedThreatModel) -> str:
    return ", ".join(dict.fromkeys(row.evidence for row in rows(attacked.answers)))


def _spans(text: str) -> Markup:
    """A text of ours with its `code` set as such."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def _ruling(ruling: Any) -> dict[str, Any]:
    rule = ruling.rule
    asked = rule.question.model_dump(mode="json", exclude_defaults=True)
    kind = asked.pop("type", rule.question.type)
    given = ", ".join(f"{name} {value}" for name, value in asked.items())
    return {
        "name": rule.name,
        "what": f"{kind.replace('_', ' ')}{f' ({given})' if given else ''}",
        "limit": f"at {'most' if rule.at_most is not None else 'least'} {as_given(rule.limit)}",
        "severity": rule.severity,
        "verdict": ruling.verdict,
        "margin": "" if ruling.margin is None else f"{100 * ruling.margin:.3g} %",
    }


def _told_number(consequence: Consequence) -> str:
    return "; ".join(f"{row.title}: {rounded_up(row.value)}" for row in rows((consequence.answer,)))
