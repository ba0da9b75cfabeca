"""Answers wider than their tolerance: their limits and their mechanisms."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.frozen.answers import read_frozen_answers, response
from tests.frozen.space import request

MOST_SHOWN: Final = 4
"""Number of printed answers of a group."""


@dataclass(frozen=True, slots=True)
class WideAnswer:
    """Answer that is wider than its tolerance, to the random request with the index `number`."""

    number: int
    limit: str
    method: str
    about: str
    """Types of the mechanism and of its parts, with samplers, neighbours and the threat model."""
    summary: str
    """Type and direction of the question, and the bounds."""


def wide_answers(first: int) -> Iterator[str]:
    """Yield lines about the wide answers to the first requests, grouped by limit, engine and kind.

    Each question is computed in a request of its own. The largest groups come first.
    """
    groups: defaultdict[tuple[str, str, str], list[WideAnswer]] = defaultdict(list)
    asked = 0
    for answer in read_frozen_answers().answers[:first]:
        name, body = request(answer.number)
        for single in _single_questions(json.loads(body)):
            asked += 1
            for one in _wide_in(answer.number, name, single):
                groups[one.limit, one.method, one.about].append(one)
    for (limit, method, about), found in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield f"{len(found):4} {limit}, {method}: {about}"
        yield from (f"       request {one.number}: {one.summary}" for one in found[:MOST_SHOWN])
    yield f"{sum(map(len, groups.values()))} wide answers to {asked} requests of one question, in {len(groups)} groups"


def _single_questions(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    questions = body.get("questions")
    if not isinstance(questions, list):
        yield body
        return
    for question in questions:
        yield body | {"questions": [question]}


def _wide_in(number: int, name: str, body: dict[str, Any]) -> Iterator[WideAnswer]:
    try:
        read = json.loads(response(name, json.dumps(body).encode()))
    except Exception:  # noqa: BLE001 - a refusal has no bounds
        return
    about = ", ".join(dict.fromkeys((*_words(body.get("mechanism", name)), *_words(body.get("threat_model")))))
    for answer in _answers(read):
        method, limit = str(answer.get("method")), (answer.get("limit") or {}).get("code", "none")
        yield WideAnswer(number, limit, method, about, _summary(answer))


def _answers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a response that does not meet its tolerance."""
    if isinstance(value, dict):
        if value.get("tolerance_met") is False:
            yield value
        for inner in value.values():
            yield from _answers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _answers(inner)


def _words(value: Any) -> Iterator[str]:
    """Yield the words in a JSON value that name the kind of a mechanism or a threat model."""
    if isinstance(value, dict):
        for name in ("type", "sampling", "neighboring_relation", "format"):
            if isinstance(value.get(name), str):
                yield value[name]
        for inner in value.values():
            if isinstance(inner, dict | list):
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value


def _summary(answer: dict[str, Any]) -> str:
    question = answer.get("question", {})
    named = {key: value for key, value in (question | answer).items() if key in ("type", "direction", *_ARGUMENTS)}
    bounds = [f"[{pair['lower']}, {pair['upper']}]" for pair in _enclosures(answer)][:3]
    return f"{named} {' '.join(bounds)}"


_ARGUMENTS: Final = ("delta", "epsilon", "false_positive_rate", "baseline_success", "prior", "false_positive_rate_min")


def _enclosures(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("lower") is not None and value.get("upper") is not None:
            yield value
        for inner in value.values():
            yield from _enclosures(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _enclosures(inner)
