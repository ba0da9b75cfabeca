"""Answers of tools as text: both bounds of every number, then assumptions, hazards and notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from api_schemas.problems import Problem
from service.rendering.tables.shell import NumberRow, number_rows, problem_text

LONGEST_LIST: Final = 200
"""Number of numbers that are written as text. The JSON beside the text has all of them."""
QUOTING: Final = (
    "Quote a number together with its bounds, its assumptions and its hazards. The safe value is the bound that holds "
    "in the worst case."
)
UNBOUNDED: Final = "an approximation without proved bounds; do not quote it as a guarantee"


def answer_result(body: bytes) -> CallToolResult:
    """Return a response of the service in JSON as the result of a tool call."""
    response: dict[str, Any] = json.loads(body)
    return _result("\n".join(_text_lines(response)), response)


def problem_result(problem: Problem) -> CallToolResult:
    """Return the result of a tool that failed. The text names every wrong field and its remedy."""
    return _result(problem_text(problem), json.loads(problem.json_bytes()), is_error=True)


def _result(text: str, content: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], structured_content=content, is_error=is_error)


def _text_lines(response: Mapping[str, Any]) -> Iterator[str]:
    yield from _decision_lines(response)
    rows = number_rows(response)
    if rows:
        yield "Numbers:"
        yield from map(_number_line, rows[:LONGEST_LIST])
    if len(rows) > LONGEST_LIST:
        yield f"- {len(rows) - LONGEST_LIST} more numbers are in the structured content."
    yield from _facts(response)
    for run in response.get("runs", ()):
        yield f"Run {run['name']}:"
        yield from _facts(run)
    yield f"Engine version {response.get('engine_version')}, digest {response.get('digest')}. {QUOTING}"


def _facts(described: Mapping[str, Any]) -> Iterator[str]:
    if mechanism := described.get("mechanism"):
        yield f"Mechanism: {json.dumps(mechanism)}"
    for name, title in (
        ("assumptions", "Assumptions, which somebody has to attest:"),
        ("hazards", "Hazards:"),
        ("not_carried_over", "Not carried over:"),
        ("notes", "Notes:"),
    ):
        if entries := described.get(name):
            yield title
            yield from map(_entry_line, entries)


def _decision_lines(response: Mapping[str, Any]) -> Iterator[str]:
    if summary := response.get("summary"):
        yield summary["sentence"]
    if judged := response.get("judged_as"):
        yield f"All numbers belong to a changed run, because hazards are present. {judged['text']}"
    if decision := response.get("decision"):
        yield f"Decision: {decision['verdict']}. {decision['sentence']}"
        yield from (f"- {each['meaning']} {each['verdict']}." for each in decision["rulings"])
    for place, claim in enumerate(response.get("claims", ())):
        test = f" {claim['attack']['test']}" if claim.get("attack") else ""
        yield f"Claim {place} of {claim['claimed']!r}: {claim['verdict']}; it holds: {claim['holds']}.{test}"
    if "proofs" in response:
        reasons = "; ".join(f"{each['direction']}: {each['reason']}" for each in response["proofs"])
        yield f"The number {response['value']!r} is {response['verdict'].replace('_', ' ')}. {reasons}".rstrip() + "."
    if "free" in response:
        yield f"{response['free']}: {response['value']!r} ({response['status']})."
    yield from _ranking_lines(response)


def _ranking_lines(response: Mapping[str, Any]) -> Iterator[str]:
    for quantity in response.get("quantities", ()):
        uncertain = "" if quantity["certain"] else " (not certain: the bounds overlap)"
        yield f"Best by {quantity['label']}: {', '.join(quantity['best'])}{uncertain}."
    for pair in response.get("pairs", ()):
        theorem = f" {pair['theorem']}" if pair.get("theorem") else ""
        yield f"Curves of {pair['first']} (first) and {pair['second']} (second): {pair['curves']['verdict']}.{theorem}"


def _number_line(row: NumberRow) -> str:
    remark = f"; {row.remark}" if row.remark else ""
    if row.lower is None or row.upper is None:
        return f"- {row.what}: about {row.value!r}, {UNBOUNDED}{remark}"
    return f"- {row.what}: from {row.lower!r} to {row.upper!r} ({row.evidence}); safe value {row.value!r}{remark}"


def _entry_line(entry: dict[str, Any] | str) -> str:
    if isinstance(entry, str):
        return f"- {entry}"
    holds = f" (holds: {entry['holds']})" if "holds" in entry else ""
    return f"- {entry.get('code', '')}{holds}: {entry.get('text', json.dumps(entry))}"
