"""A statement holds all that a replay needs: the answer is computed again, and compared number by number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.command.replaying import CannotReplay, compute_again, restore_request
from service.engine_version import ENGINE_VERSION
from service.resources.assessments.stored_decision import decision_in
from service.resources.catalogue import RESOURCES, resource
from service.signing.comparison import compare_answers
from service.signing.statement import Statement
from service.signing.verification import read_file
from tests.frozen.answers import read_frozen_answers
from tests.frozen.space import LATER_RESOURCES, request
from tests.signing.statements import answered, assessment, signer

FEW = 10
ARCHIVED = 300
QUICK = ("bounds", "claims", "gdp-gmip", "imports", "membership-conversions", "pmp-finite")


def archived(name: str, body: bytes) -> Statement:
    """Return the statement about an answer as an archive holds it: from the bytes of its envelope."""
    return read_file(signer().sign_answer("answer", *answered(name, body)))


def examples(names: Iterator[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        for example in resource(name).examples.values():
            yield name, json.dumps(example["value"]).encode()


def assert_replays_equal(statement: Statement) -> None:
    sha256, answer = compute_again(statement)
    assert (sha256, answer) == (statement.answer_sha256, answer)
    compared = compare_answers(statement.answer, answer)
    assert compared.is_equal, (statement.resource, compared.sentence())


def drawn(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield requests over the whole contract that have an answer, in the order of the frozen answers."""
    answers = [one.number for one in read_frozen_answers().answers if not one.problem]
    yield from (request(number) for number in answers[: ARCHIVED : ARCHIVED // count])


@pytest.mark.parametrize("name", QUICK)
def test_examples_replay_equal(name: str) -> None:
    for each in examples(iter([name])):
        assert_replays_equal(archived(*each))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in RESOURCES if name not in QUICK])
def test_examples_of_slower_resources_replay_equal(name: str) -> None:
    for each in examples(iter([name])):
        assert_replays_equal(archived(*each))


@pytest.mark.parametrize("count", [FEW, pytest.param(ARCHIVED, marks=pytest.mark.thorough)])
def test_drawn_requests_replay_equal(count: int) -> None:
    resources: set[str] = set()
    for name, body in drawn(count):
        statement = archived(name, body)
        resources.add(name)
        assert_replays_equal(statement)
    assert len(resources) >= 3


def test_drawn_requests_cover_every_other_resource() -> None:
    """The drawn requests cover every resource except those whose examples are replayed above.

    No drawn request has an answer of `pmp-finite` so early, and none is of a resource younger than the stored answers.
    """
    assert {name for name, _ in drawn(ARCHIVED)} == set(RESOURCES) - {"pmp-finite"} - LATER_RESOURCES


def test_decisions_replay_equal() -> None:
    named, body = assessment()
    decided = decision_in(body, json.loads(body)["digest"])
    assert decided is not None
    assert_replays_equal(read_file(signer().sign_answer("decision", named, decided)))


def test_largest_seed_survives_the_canonical_form() -> None:
    """The largest seed survives the canonical form.

    RFC 8785 has no integers above 2^53 - 1, so they are sent as strings.
    """
    sent: dict[str, Any] = {
        "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
        "method": "monte_carlo",
        "seed": 2**63 - 1,
        "questions": [{"type": "epsilon", "delta": 1e-2}],
    }
    statement = archived("bounds", json.dumps(sent).encode())
    assert statement.request["seed"] == str(2**63 - 1)
    assert restore_request(resource("bounds"), statement).model_dump()["seed"] == 2**63 - 1
    assert_replays_equal(statement)


def test_imported_states_replay_equal() -> None:
    state = next(iter(resource("imports").examples.values()))["value"]
    sent = {"mechanism": {"type": "imported", **state}, "questions": [{"type": "epsilon", "delta": 1e-5}]}
    assert_replays_equal(archived("bounds", json.dumps(sent).encode()))


def other(statement: Statement, **changes: Any) -> Statement:
    values = {name: getattr(statement, name) for name in Statement.__slots__} | changes
    return Statement(**values)


def gaussian() -> Statement:
    from tests.signing.statements import bounds_envelope

    return read_file(bounds_envelope())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"engine_version": "2999.1.1"}, "newer than this one"),
        ({"engine_version": f"{ENGINE_VERSION}.1"}, "newer than this one"),
        ({"resource": "ledgers"}, "no such resource"),
        ({"request": {"mechanism": {"type": "gaussian"}}}, "cannot read the request"),
        ({"request": {}}, "cannot read the request"),
        ({"request_sha256": "0" * 64}, "cannot read the request"),
        ({"kind": "decision", "resource": "assessments"}, "cannot read the request"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotReplay, match=sentence) as caught:
        compute_again(other(gaussian(), **changes))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_older_archives_are_computed_by_this_version() -> None:
    sha256, answer = compute_again(other(gaussian(), engine_version="2025.1.1"))
    assert sha256 == gaussian().answer_sha256
    assert compare_answers(gaussian().answer, answer).is_equal


def enclosed(lower: float | str, upper: float | str, **more: Any) -> dict[str, Any]:
    return {"answers": [{"value": upper, "lower": lower, "upper": upper, **more}], "digest": "sha256:1", "readings": 1}


@pytest.mark.parametrize(
    ("now", "moved", "contradicts", "sentence"),
    [
        (enclosed(1.0, 2.0), 0, False, "equal: 3 numbers, 1 enclosure"),
        (enclosed(1, 2) | {"digest": "sha256:2", "readings": 7, "engine_version": "8"}, 0, False, "equal"),
        (
            enclosed(1.5, 2.0),
            1,
            False,
            "1 of 3 numbers moved, by at most 0.33 of its size, at /answers/0/lower; 1 of 1",
        ),
        (enclosed(2.0, 3.0), 3, False, "1 of 1 enclosure meet"),
        (enclosed(2.5, 3.0), 3, True, "0 of 1 enclosure meet; at /answers/0/lower the archived one is [1.0, 2.0], now"),
        (enclosed(0.0, "Infinity"), 3, False, "1 of 1 enclosure meet"),
        (enclosed(1.0, 2.0, method="other"), 0, False, "1 text or member differ, first at /answers/0/method"),
        (enclosed(1.0, 2.0) | {"verdict": "met"}, 0, False, "differ, first at /verdict"),
        ({"answers": []}, 0, False, "texts or members differ"),
    ],
)
def test_comparison_of_answers(now: dict[str, Any], moved: int, contradicts: bool, sentence: str) -> None:
    compared = compare_answers(enclosed(1.0, 2.0), now)
    assert len(compared.moved) == moved
    assert compared.contradicts is contradicts
    assert sentence in compared.sentence()


def test_another_verdict_contradicts() -> None:
    compared = compare_answers({"decision": {"verdict": "met"}}, {"decision": {"verdict": "violated"}})
    assert compared.contradicts
    assert "1 verdict changed, first at /decision/verdict: was met, is violated" in compared.sentence()


def test_columns_are_compared_place_by_place() -> None:
    before = {
        "power": {"lower": [0.1, 0.2, None], "upper": [0.2, 0.3, 0.4]},
        "lower_log10": [-3.0],
        "upper_log10": [-2.0],
    }
    now = {"power": {"lower": [0.1, 0.35, None], "upper": [0.2, 0.4, 0.4]}, "lower_log10": [-1.0], "upper_log10": [0.0]}
    compared = compare_answers(before, now)
    assert compared.enclosures == 3
    assert set(compared.apart) == {"/power/lower/1", "/lower_log10/0"}


def test_archives_are_files(tmp_path: Path) -> None:
    path = tmp_path / "archive.json"
    path.write_bytes(signer().sign_answer("answer", *assessment()))
    assert read_file(path.read_bytes()).request["policy"]["name"] == "gate"
