"""POST /v1/claims and /v1/comparisons over HTTP and on the command line: renderings, exit codes and rejected input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.command import main as cli
from service.resources.claims.checking import CLAIMS
from service.resources.comparisons.comparing import COMPARISONS
from tests.api.requests import ADVANTAGE, GAUSSIAN, JSON, dpsgd, encoded

RUNS: list[dict[str, Any]] = [
    {"name": "one", "mechanism": GAUSSIAN},
    {"name": "two", "mechanism": {"type": "laplace", "noise_multiplier": 1.0}},
]
TRADE_OFF: dict[str, Any] = {"type": "trade_off", "false_positive_rates": [0.1]}
CAPACITY: dict[str, Any] = {"type": "deletion_capacity", "prior": 0.1, "confidence": 0.5}


def nested(levels: int) -> dict[str, Any]:
    return {"type": "repeated", "steps": 1, "mechanism": nested(levels - 1)} if levels else GAUSSIAN


def post(client: TestClient, route: str, body: Any, **headers: str) -> Any:
    return client.post(route, content=encoded(body), headers=JSON | headers)


def claims(*sent: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"mechanism": GAUSSIAN, "claims": sent, **more}


def claim(question: dict[str, Any] = ADVANTAGE, value: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"question": question, "value": value, **more}


def comparison(runs: Any = RUNS, questions: Any = (ADVANTAGE,), **more: Any) -> dict[str, Any]:
    return {"runs": runs, "questions": questions, **more}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "mechanism": GAUSSIAN} for name in names]


def test_comparison_is_rendered_as_table_and_csv(client: TestClient) -> None:
    first = post(client, "/v1/comparisons", comparison())
    assert first.headers["content-type"] == "application/json"
    assert first.headers["vary"] == "Accept"
    for form, start in (("text/csv", "quantity,better,one,"), ("text/plain", "           ")):
        answer = post(client, "/v1/comparisons", comparison(), Accept=form, **{"Accept-Encoding": "identity"})
        assert answer.headers["content-type"] == f"{form}; charset=utf-8"
        assert answer.text.startswith(start)
        assert answer.headers["etag"] == f'"{first.json()["digest"]};{form}"'


def test_claims_command_exits_with_1_for_unsafe_claim(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    sent = tmp_path / "claims.json"
    for value, code in ((0.1, 1), (0.5, 0)):
        sent.write_bytes(encoded(claims(claim(value=value))))
        assert cli.main(["claims", str(sent)]) == code
        assert json.loads(capsysbinary.readouterr().out)["claims"][0]["verdict"] == ("unsafe" if code else "loose")


def test_compare_command_prints_the_table(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    sent = tmp_path / "runs.json"
    sent.write_bytes(encoded(comparison()))
    assert cli.main(["compare", str(sent), "--accept", "text/plain"]) == 0
    assert b"one / two: the curves cross between 0.2 and 0.3" in capsysbinary.readouterr().out


def test_imported_mechanism_works_in_claims_and_comparisons(client: TestClient) -> None:
    state = {"type": "imported", "format": "opacus", "content": {"history": [[1.0, 0.01, 1000]], "mechanism": "prv"}}
    response = post(
        client, "/v1/claims", claims(claim({"type": "epsilon", "delta": 1e-5}, 1.83), mechanism=state)
    ).json()
    assert response["claims"][0]["verdict"] == "loose"
    runs = [{"name": "state", "mechanism": state}, {"name": "run", "mechanism": dpsgd()}]
    [pair] = post(client, "/v1/comparisons", comparison(runs)).json()["pairs"]
    assert pair["curves"]["verdict"] == "equal"


BAD_CLAIMS: list[tuple[str, Any, str, str]] = [
    ("no claims", claims(), "/claims", "1 to 256"),
    ("too many", claims(*[claim()] * 257), "/claims", "256"),
    ("no value", claims({"question": ADVANTAGE}), "/claims/0/value", "Required"),
    ("negative", claims(claim({"type": "epsilon", "delta": 1e-5}, -0.0048)), "/claims/0/value", '[0, 1e+300] or "Inf'),
    ("probability 2", claims(claim(), claim(value=2)), "/claims/1/value", "[0, 1] for advantage"),
    ("infinite chance", claims(claim(value="Infinity")), "/claims/0/value", "[0, 1]"),
    ("gain above 2", claims(claim({"type": "advantage_over_prior", "prior": 0.1}, 2.1)), "/claims/0/value", "[0, 2]"),
    ("half a record", claims(claim(CAPACITY, 2.5)), "/claims/0/value", "an integer"),
    ("a word", claims(claim(value="small")), "/claims/0/value", '"Infinity"'),
    ("null", claims(claim(value=None)), "/claims/0/value", "finite number"),
    ("two rates", claims(claim({**TRADE_OFF, "false_positive_rates": [0.1, 0.2]})), "/claims/0/question", "one false"),
    ("reads of another", claims(claim(reads="type_two_error")), "/claims/0/reads", "trade_off"),
    ("tolerance", claims(claim(relative_tolerance=2)), "/claims/0/relative_tolerance", "[0, 1]"),
    ("question", claims(claim({"type": "epsilon", "delta": 2})), "/claims/0/question/delta", "[0, 1]"),
    ("no type", claims(claim({"delta": 0.1})), "/claims/0/question/type", "epsilon"),
    ("spelled claimed", claims({"question": ADVANTAGE, "claimed": 3}), "/claims/0/claimed", "[0, 1]"),
    ("deep", claims(claim(), mechanism={"type": "gaussian", "noise_multiplier": 0}), "/mechanism/noise_multiplier", ""),
    (
        "prior of another attacker",
        claims(
            claim(),
            claim({"type": "attack_accuracy", "prior": 0.3}),
            threat_model={"type": "practical", "epsilon_pmp": 0.5},
        ),
        "/claims/1/question",
        "1/2",
    ),
    ("glrt of Laplace", claims(claim(), mechanism=RUNS[1]["mechanism"], threat_model={"type": "glrt", "dimension": 3}),
     "/mechanism", "gaussian"),
]  # fmt: skip
BAD_COMPARISONS: list[tuple[str, Any, str, str]] = [
    ("no runs", comparison([]), "/runs", "2 to 16"),
    ("one run", comparison(RUNS[:1]), "/runs", "2 to 16"),
    ("17 runs", comparison(named(*map(str, range(17)))), "/runs", "2 to 16"),
    ("one name twice", comparison(named("a", "b", "a")), "/runs/2/name", "Another run"),
    ("no name", comparison(named("", "b")), "/runs/0/name", "1 to 64"),
    ("a long name", comparison(named("x" * 65, "b")), "/runs/0/name", "1 to 64"),
    ("a formula for a name", comparison(named("=1+1", "b")), "/runs/0/name", ""),
    ("a line break in a name", comparison(named("a", "b\nc")), "/runs/1/name", ""),
    ("no questions", comparison(questions=[]), "/questions", "1 to 128"),
    ("129 rates", comparison(questions=[{**TRADE_OFF, "false_positive_rates": [0.1] * 129}]), "/questions", "128"),
    ("rates of curves", comparison(false_positive_rates=[0.5, 2]), "/false_positive_rates/1", "[0, 1]"),
    ("1001 rates of curves", comparison(false_positive_rates=[0.5] * 1001), "/false_positive_rates", "1 to 1000"),
    ("no noise", comparison([*RUNS, {"name": "3", "mechanism": {"type": "gaussian"}}]),
     "/runs/2/mechanism/noise_multiplier", "Required"),
    ("no mechanism", comparison([RUNS[0], {"name": "3"}]), "/runs/1/mechanism", "Required"),
    ("steps", comparison([RUNS[0], {"name": "3", "mechanism": dpsgd(steps=0)}]), "/runs/1/mechanism/steps", "[1, 1e"),
    ("a deep tree", comparison([RUNS[0], {"name": "3", "mechanism": nested(16)}]), "/runs/1/mechanism", "16 levels"),
    ("glrt of Laplace", comparison([RUNS[0], {**RUNS[1], "threat_model": {"type": "glrt", "dimension": 3}}]),
     "/runs/1/mechanism", "gaussian"),
    ("a sampled Laplace record replaced", comparison([
        RUNS[0],
        {"name": "3", "mechanism": {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": RUNS[1]["mechanism"]},
         "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"}},
    ]), "/runs/1/", "poisson_sampled"),
    ("an unknown field", comparison([{**RUNS[0], "color": "red"}, RUNS[1]]), "/runs/0/color", "The fields are"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "pointer", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in BAD_CLAIMS])
def test_bad_claims_are_rejected(client: TestClient, body: Any, pointer: str, sentence: str) -> None:
    assert_refused(post(client, CLAIMS.path, body), pointer, sentence)


@pytest.mark.parametrize(
    ("body", "pointer", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in BAD_COMPARISONS]
)
def test_bad_comparisons_are_rejected(client: TestClient, body: Any, pointer: str, sentence: str) -> None:
    assert_refused(post(client, COMPARISONS.path, body), pointer, sentence)


def assert_refused(answer: Any, pointer: str, sentence: str) -> None:
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["pointer"].startswith(pointer) if pointer.endswith("/") else error["pointer"] == pointer
    assert sentence in error["detail"] + answer.json()["detail"]
