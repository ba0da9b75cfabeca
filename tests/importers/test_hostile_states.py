"""Hostile states are rejected at their pointer with a remedy, and nothing in them is executed."""

from __future__ import annotations

import base64
import copy
import json
import random
import sys
from typing import Any

import pytest

from api_schemas.bounds import BoundsRequest
from api_schemas.imports import ImportsRequest
from api_schemas.problems import field_errors
from service.importers.catalogue import validate_with_imports
from service.parsing import (
    DuplicateKeys,
    InvalidRequest,
    MalformedJson,
    NotANumber,
    RequestBodyError,
    TooManyJsonValues,
    parse_request,
)
from tests.importers.states import RUN, STATES

EVENT: dict[str, Any] = {
    "module_name": "dp_accounting.dp_event",
    "class_name": "GaussianDpEvent",
    "noise_multiplier": 1.0,
}
NAMES = {key: EVENT[key] for key in ("module_name",)}
PICKLE = base64.b64encode(
    b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."
).decode()
ROW = [1.0, 0.01, 1000]


def nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {**NAMES, "class_name": kind, **fields}


def rejections(content: Any, library: str = "detect") -> list[tuple[str, str]]:
    """Return pointers and reasons of a rejection. They agree for an import and for a mechanism."""
    found: list[list[tuple[str, str]]] = []
    for kind, body, place in (
        (ImportsRequest, {"format": library, "content": content}, ""),
        (
            BoundsRequest,
            {
                "mechanism": {"type": "imported", "format": library, "content": content},
                "questions": [{"type": "advantage"}],
            },
            "/mechanism",
        ),
    ):
        with pytest.raises(InvalidRequest) as caught:
            parse_request(kind, json.dumps(body).encode(), validate_with_imports)
        errors = field_errors(caught.value.validation)
        found.append([(each.pointer.removeprefix(place), each.detail) for each in errors])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("library", "content", "pointer", "message"),
    [
        ("opacus", PICKLE, "", "No text is unpickled"),
        ("detect", "OrderedDict([('history', [(1.0, 0.01, 1000)])])", "", "json.dumps(accountant.state_dict())"),
        ("detect", None, "", "Must be a JSON object or list"),
        ("detect", 7, "", "Must be a JSON object or list"),
        ("detect", {}, "", "matches none of the known formats"),
        ("detect", [], "", "Known formats are opacus"),
        (
            "detect",
            {"history": [ROW], "type": "gaussian"},
            "",
            "The state matches opacus and privacy_bounds. Send one of them as `format`",
        ),
        ("detect", nested(65, 1), "", "64 levels of nesting"),
        ("opacus", [], "", "history is empty"),
        (
            "opacus",
            {"history": [ROW], "mechanism": "prv", "version": 2},
            "/version",
            "The fields are: history, mechanism",
        ),
        ("opacus", {"history": [ROW], "mechanism": "pld"}, "/mechanism", "Must be one of prv, rdp, gdp, ctd"),
        ("opacus", {"mechanism": "prv"}, "/history", "Required"),
        ("opacus", {"history": "[[1, 2, 3]]"}, "/history", "list of rows"),
        ("opacus", [ROW, [1.0, 0.01]], "/1", "three numbers"),
        ("opacus", [ROW, {"noise_multiplier": 1.0}], "/1", "three numbers"),
        ("opacus", [ROW, [1e-5, 0.01, 1]], "/1/0", "[0.0001, 1e+15]."),
        ("opacus", [[1.0, 1.5, 1]], "/0/1", "(0, 1]."),
        ("opacus", [[1.0, 0.01, 1.5]], "/0/2", "integer (written without fraction or exponent) in [1, 1e+12]."),
        ("opacus", [[True, 0.01, 1]], "/0/0", "finite number"),
        ("opacus", [ROW, [["os", "system"], 0.01, 1]], "/1/0", "finite number"),
        (
            "opacus",
            [[1.0 + place / 1e5, 0.01, 1] for place in range(10_001)],
            "",
            "largest rate, which gives an upper bound",
        ),
        ("riskcal", {"noise_multiplier": 1.0, "sample_rate": 0.01}, "/num_steps", "Required"),
        ("riskcal", {"noise_multiplier": 0, "sample_rate": 0.01, "num_steps": 1}, "/noise_multiplier", "[0.0001"),
        ("jax_privacy", {"noise_multiplier": 1.0, "iterations": 9}, "/sampling_prob", "Required"),
        (
            "jax_privacy",
            {"noise_multiplier": 1.0, "iterations": 9, "sampling_prob": 0.1, "use_zcdp": True},
            "/use_zcdp",
            "Send false",
        ),
        (
            "jax_privacy",
            {"noise_multiplier": 1.0, "iterations": 9, "sampling_prob": 0.1, "num_bands": 0},
            "/num_bands",
            "in [1, 1e+12]",
        ),
        (
            "tf_privacy",
            {"number_of_examples": 10, "batch_size": 20, "num_epochs": 1, "noise_multiplier": 1.0},
            "/batch_size",
            "at most dataset_size",
        ),
        (
            "tf_privacy",
            {"number_of_examples": 10, "batch_size": 2, "num_epochs": 1, "noise_multiplier": 1.0, "seed": 1},
            "/seed",
            "The fields are",
        ),
        (
            "dp_accounting",
            {**EVENT, "module_name": "os", "class_name": "system"},
            "/module_name",
            "no module is ever imported",
        ),
        ("dp_accounting", {**EVENT, "module_name": "antigravity"}, "/module_name", "no module is ever imported"),
        ("dp_accounting", {**EVENT, "module_name": ["os"]}, "/module_name", "no module is ever imported"),
        ("dp_accounting", ["dp_accounting.dp_event", "__import__", "os"], "/1", "Unknown event"),
        (
            "dp_accounting",
            event("DiscreteLaplaceDpEvent", noise_parameter=0, sensitivity=1),
            "/noise_parameter",
            "1e-290",
        ),
        (
            "dp_accounting",
            event("RandomizedResponseDpEvent", noise_parameter=0.0, num_buckets=2),
            "/noise_parameter",
            "[1e-290, 1]",
        ),
        (
            "tf_privacy",
            {"number_of_examples": 10, "batch_size": 2, "num_epochs": 1, "noise_multiplier": 1.0}
            | {"max_examples_per_user": True},
            "/max_examples_per_user",
            "an integer",
        ),
        ("dp_accounting", event("FutureDpEvent"), "/class_name", "known events are: GaussianDpEvent"),
        ("dp_accounting", {**EVENT, "sensitivity": 2.0}, "/sensitivity", "The fields are"),
        ("dp_accounting", {**EVENT, "fields": {"noise_multiplier": 1.0}}, "/noise_multiplier", "The fields are"),
        ("dp_accounting", event("GaussianDpEvent"), "/noise_multiplier", "Required"),
        ("dp_accounting", {**EVENT, "noise_multiplier": 0}, "/noise_multiplier", "[0.0001, 1e+15]"),
        ("dp_accounting", ["dp_accounting.dp_event", "GaussianDpEvent", 1.0, 2.0], "", "Must have 3 values"),
        ("dp_accounting", {"event": EVENT, "neighboring_relation": "ANY"}, "/neighboring_relation", "REPLACE_SPECIAL"),
        ("dp_accounting", event("SelfComposedDpEvent", event=EVENT, count=0), "/count", "in [1, 1e+12]"),
        ("dp_accounting", event("ComposedDpEvent", events={"0": EVENT}), "/events", "Must be a list"),
        (
            "dp_accounting",
            event("ComposedDpEvent", events=[EVENT, {**EVENT, "noise_multiplier": -1}]),
            "/events/1/noise_multiplier",
            "[0.0001, 1e+15]",
        ),
        (
            "dp_accounting",
            event("MixtureOfGaussiansDpEvent", standard_deviation=1.0, sensitivities=[0, 1], sampling_probs=[0.5, 0.6]),
            "/sampling_probs",
            "sum to 1",
        ),
        (
            "dp_accounting",
            event("SampledWithoutReplacementDpEvent", source_dataset_size=9, sample_size=3, event=event("NoOpDpEvent")),
            "/event",
            "Must be GaussianDpEvent",
        ),
        (
            "dp_accounting",
            {"event": event("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=2)}
            | {"neighboring_relation": "ADD_OR_REMOVE_ONE"},
            "/neighboring_relation",
            "needs REPLACE_ONE",
        ),
        ("privacy_bounds", {"type": "gaussian", "sigma": 0}, "/sigma", "[0.0001, 1e+15]"),
        ("privacy_bounds", {"type": "quantum"}, "/type", "Must be one of"),
        ("privacy_bounds", {"mechanism": RUN, "version": 3}, "/version", "The fields are"),
        (
            "privacy_bounds",
            {"mechanism": {"type": "imported", "content": [ROW]}},
            "/mechanism",
            "is itself an imported mechanism",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_state_is_rejected_with_pointer(library: str, content: Any, pointer: str, message: str) -> None:
    before = set(sys.modules)
    [(found, detail)] = rejections(content, library)
    assert found == "/content" + pointer
    assert message in detail
    assert {"antigravity", "pickle"} & (set(sys.modules) - before) == set()


def test_events_and_errors_are_limited() -> None:
    [(pointer, detail)] = rejections(event("ComposedDpEvent", events=[[*EVENT.values()]] * 5000))
    assert pointer == "/content/events/3999"
    assert "4000 events" in detail
    assert len(rejections(dict.fromkeys(map(str, range(20000)), 1) | {"history": []})) == 64


def test_depth_of_events_is_limited() -> None:
    def tower(height: int) -> dict[str, Any]:
        return event("SelfComposedDpEvent", event=tower(height - 1), count=2) if height else EVENT

    parse_request(ImportsRequest, json.dumps({"content": tower(15)}).encode(), validate_with_imports)
    [(pointer, detail)] = rejections(tower(16))
    assert (pointer, "16 levels deep" in detail) == ("/content", True)
    assert "64 levels" in rejections(tower(70))[0][1]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"history": [[NaN, 0.01, 1]]}', NotANumber),
        (b'{"history": [[1.0, 0.01, 1]], "note": -Infinity}', NotANumber),
        (b'{"history": [[1e999, 0.01, 1]]}', InvalidRequest),
        (b'{"type": "gaussian", "sigma": 1, "sigma": 2}', DuplicateKeys),
        (b'"\\ud800"', MalformedJson),
        (b"\x80\x04\x95", MalformedJson),
        (b"[" * 100_000, MalformedJson),
        (b"[" * 100_000 + b"]" * 100_000, MalformedJson),
        (b"[" + b"[1.0,0.01,1]," * 999_999 + b"[1.0,0.01,1]]", TooManyJsonValues),
        (b"[" + b"{}," * 5001 + b"{}]", TooManyJsonValues),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_state_raises(content: bytes, error: type[RequestBodyError]) -> None:
    for body in (
        b'{"content":' + content + b"}",
        b'{"questions":[{"type":"advantage"}],"mechanism":{"type":"imported","content":' + content + b"}}",
    ):
        with pytest.raises(error):
            parse_request(
                ImportsRequest if body.startswith(b'{"content') else BoundsRequest, body, validate_with_imports
            )


def test_longest_history_is_read() -> None:
    rows = [[1.0 + place / 1e5, 0.01, 10**12] for place in range(10_000)]
    body = {
        "questions": [{"type": "advantage"}],
        "mechanism": {"type": "imported", "format": "opacus", "content": rows},
    }
    direct: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": [row[0] for row in rows], "sample_rate": 0.01}
    with pytest.raises(InvalidRequest, match="not a request"):  # 1e16 steps in total.
        parse_request(BoundsRequest, json.dumps(body).encode(), validate_with_imports)
    for row in rows:
        row[2] = 7
    direct["steps"] = [7] * len(rows)
    request = parse_request(BoundsRequest, json.dumps(body).encode(), validate_with_imports)
    assert request == parse_request(BoundsRequest, json.dumps({**body, "mechanism": direct}).encode())


def test_escaped_import_is_recognised() -> None:
    body = (
        b'{"questions":[{"type":"advantage"}],"mechanism":{"\\u0074ype":"\\u0069mported","content":[[1.0,0.01,1000]]}}'
    )
    assert parse_request(BoundsRequest, body, validate_with_imports).mechanism.model_dump()["type"] == "dpsgd"


JUNK: list[Any] = [
    2,
    0.5,
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "x",
    "os.system",
    [],
    {},
    [[]],
    {"type": "imported"},
    {"class_name": "x"},
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Yield every container (list or object) inside a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [pair for key in keys for pair in places(value[key])]


@pytest.mark.parametrize("library", STATES)
def test_damaged_state_is_read_or_rejected(library: str) -> None:
    """A damaged state of another library is read or rejected.

    Parts of it are replaced, renamed or removed.
    """
    draw = random.Random(17)
    states = [
        state[form] for state in STATES[library].values() for form in ("content", "event", "listed") if form in state
    ]
    outcomes = {True: 0, False: 0}
    for _ in range(400):
        content = copy.deepcopy(draw.choice(states))
        container, key = draw.choice(places(content))
        match draw.randrange(4):
            case 0 if isinstance(container, dict):
                del container[key]
            case 1 if isinstance(container, dict):
                container[key + "_"] = container.pop(key)
            case 2 if isinstance(container, list):
                container.append(draw.choice(JUNK))
            case _:
                container[key] = draw.choice(JUNK)
        mechanism = {"type": "imported", "format": draw.choice(["detect", library]), "content": content}
        body = {"mechanism": mechanism, "questions": [{"type": "advantage"}]}
        try:
            parse_request(BoundsRequest, json.dumps(body).encode(), validate_with_imports)
        except InvalidRequest as error:
            for each in field_errors(error.validation):
                assert each.pointer.startswith("/mechanism"), each
                assert each.detail.endswith("."), each
            outcomes[False] += 1
        else:
            outcomes[True] += 1
    assert min(outcomes.values()) > 0
