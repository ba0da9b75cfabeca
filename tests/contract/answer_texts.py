"""Texts of answers to stored requests and to wrong requests, and of problems, settings and commands."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import numpy as np

from api_schemas.problems import Problem
from service.api.problem_texts import TEXTS
from service.command.in_process import evaluate
from service.command.parser import build_parser
from service.jobs.diagnosis import STORE_REMEDIES
from service.problems import ERROR_PROBLEMS, HTTP_PROBLEMS, INTERNAL_ERROR, SERVER_PROBLEMS
from service.resources.assessments.effects import HAZARDS
from service.resources.assessments.premises import IF_NOT
from service.resources.catalogue import RESOURCES, resource
from service.resources.limits import ADVICE
from service.settings import Settings
from tests.frozen.answers import read_frozen_answers
from tests.frozen.space import request

SEED: Final = 20261127
STORED_REQUESTS: Final = 150
FEW_STORED_REQUESTS: Final = 25
WRONG_VALUES: Final = 12
"""Number of wrong values for each example of a resource, one at a time."""
INVALID: Final = (-1, 1e300, "many", None, [], True)
TEXT_FIELDS: Final = frozenset(
    (
        *("advice", "detail", "effect_text", "if_not", "meaning", "not_carried_over", "notes", "paragraph"),
        *("reason", "remedy", "sentence", "statistic", "summary", "test", "text", "theorem", "title"),
    )
)
"""Fields with sentences of the service. Other texts are identifiers, sources, or copies of the request."""


def few_answer_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of fewer answers, and of all problems."""
    yield from answer_texts(FEW_STORED_REQUESTS)


def answer_texts(count: int = STORED_REQUESTS) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of all sentences in the first answers and in the problems."""
    for stored in read_frozen_answers().answers[:count]:
        name, body = request(stored.number)
        yield from _texts_of(name, body, f"request {stored.number}")
    random = np.random.default_rng(SEED)
    for name in RESOURCES:
        for case, example in resource(name).examples.items():
            for _ in range(WRONG_VALUES):
                wrong = with_wrong_value(deepcopy(example["value"]), random)
                yield from _texts_of(name, json.dumps(wrong).encode(), f"{name}, {case}, {json.dumps(wrong)[:200]}")


def _texts_of(name: str, body: bytes, place: str) -> Iterator[tuple[str, str]]:
    answer = evaluate(resource(name), body, instance="")
    content = answer.json_bytes() if isinstance(answer, Problem) else answer
    yield from ((f"{place}: {field}", text) for field, text in text_fields(json.loads(content)))


def with_wrong_value(body: Any, random: np.random.Generator) -> Any:
    """Replace one value of a request by an invalid one, or add an unknown field. Return the request."""
    node = body
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys or random.uniform() < 1 / 16:
            break
        key = keys[random.integers(len(keys))]
        if not isinstance(node[key], dict | list | tuple) or isinstance(node, tuple):
            if not isinstance(node, tuple):
                node[key] = INVALID[random.integers(len(INVALID))]
            return body
        node[key] = list(node[key]) if isinstance(node[key], tuple) else node[key]
        node = node[key]
    if isinstance(node, dict):
        node["unknown"] = 1
    return body


def text_fields(node: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield field and text of the sentences in a response or a problem."""
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from text_fields(inner, name)
    elif isinstance(node, list):
        for inner in node:
            yield from text_fields(inner, field)
    elif isinstance(node, str) and field in TEXT_FIELDS:
        yield field, node


def fixed_texts() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of problems, hazards, advice, settings, remedies, and help of commands."""
    definitions = (INTERNAL_ERROR, *ERROR_PROBLEMS.values(), *HTTP_PROBLEMS.values(), *SERVER_PROBLEMS.values())
    yield from ((each.type, text) for each in definitions for text in (each.title, each.guidance))
    yield from ((kind, text) for kind, page in TEXTS.items() for text in (page.meaning, *page.remedies))
    yield from ((code, text) for code, row in HAZARDS.items() for text in (row.title, row.remedy, row.why))
    yield from ADVICE.items()
    yield from IF_NOT.items()
    yield from STORE_REMEDIES.items()
    yield from ((name, field.description or "") for name, field in Settings.model_fields.items())
    names = {resource(name).name.replace("_", "-"): name for name in RESOURCES}
    yield from _help_of(build_parser(names, tuple(names)))


def _help_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    yield parser.prog, parser.description or ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((parser.prog, each.help or "") for each in action._choices_actions)
            for inner in action.choices.values():
                yield from _help_of(inner)
        elif action.help not in (None, argparse.SUPPRESS):
            yield f"{parser.prog} {action.dest}", str(action.help)
