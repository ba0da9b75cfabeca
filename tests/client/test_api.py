"""The Python client without a server: sent requests, returned values, and errors."""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pytest
from typing_extensions import override

from api_schemas.bounds import BoundsResponse
from api_schemas.mechanisms import GaussianMechanism
from api_schemas.questions import AdvantageQuestion
from api_schemas.threat_models import WorstCaseThreatModel
from privacy_bounds import (
    Asking,
    AsyncClient,
    Client,
    InvalidArgument,
    Local,
    Number,
    Power,
    PrivacyBoundsError,
    Refused,
    Unreachable,
    table,
)
from service.command.main import main
from service.resources.bounds import BOUNDS
from tests.conftest import reserved_port
from tests.importers.states import RUN, STATES, parsed_request

HISTORY = [(1.0, 0.01, 1000)]
GAUSSIAN = GaussianMechanism(type="gaussian", noise_multiplier=2.0)


@final
class RecordingClient(Asking):
    """A client that records its requests and answers them locally."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    @override
    def send(self, path: str, body: bytes, media_type: str = "application/json") -> bytes:
        self.bodies.append(json.loads(body))
        return Local().send(path, body, media_type)


def test_former_name_of_post_works_and_warns() -> None:
    request = ("/v1/bounds", {"mechanism": GAUSSIAN, "questions": [{"type": "advantage"}]}, BoundsResponse)
    expected = Local().post(*request)
    with pytest.warns(DeprecationWarning, match="Use `post`"):
        assert Local().ask(*request) == expected

    async def ask() -> BoundsResponse:
        async with AsyncClient(Local()) as client:
            return await client.ask(*request)

    with pytest.warns(DeprecationWarning, match="Use `post`"):
        assert asyncio.run(ask()) == expected


class Accountant:
    """Stub of an accountant of Opacus."""

    def __init__(self, history: list[Any]) -> None:
        self.history = history

    def state_dict(self) -> OrderedDict[str, Any]:
        return OrderedDict(history=self.history, mechanism="prv")


class GaussianEvent(NamedTuple):
    """Stub of the named tuple of an event of dp_accounting."""

    module_name: str = "dp_accounting.dp_event"
    class_name: str = "GaussianDpEvent"
    noise_multiplier: float = 2.0


class Event:
    def to_named_tuple(self) -> GaussianEvent:
        return GaussianEvent()


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        OrderedDict(RUN),
        HISTORY,
        [[np.float64(1.0), np.float32(0.01).astype(float).round(6), np.int64(1000)]],
        {"history": HISTORY, "mechanism": "rdp"},
        Accountant([(1.0, 0.01, 1)] * 1000),
        STATES["dp_accounting"]["run"]["content"],
        STATES["dp_accounting"]["run"]["listed"],
        parsed_request(RUN).mechanism,
    ],
    ids=lambda run: type(run).__name__,
)
def test_run_may_have_any_accepted_form(run: Any) -> None:
    answer = Local().epsilon(run, delta=1e-5, relative_tolerance=1e-3)
    assert answer.response.mechanism == parsed_request(RUN).mechanism


def test_events_of_dp_accounting_are_accepted_as_runs() -> None:
    assert Local().advantage(Event()).response.mechanism == GAUSSIAN


class Relation(Enum):
    """Stub of the relations of dp_accounting."""

    ADD_OR_REMOVE_ONE = 1
    REPLACE_ONE = 2
    REPLACE_SPECIAL = 3


class Ledger:
    """Stub of an accountant of dp_accounting: the events so far, and the neighbouring relation."""

    ledger = Event()

    def __init__(self, relation: Relation) -> None:
        self.neighboring_relation = relation


@pytest.mark.parametrize(
    ("relation", "read"),
    [
        (Relation.ADD_OR_REMOVE_ONE, "add_or_remove_one"),
        (Relation.REPLACE_ONE, "replace_one"),
        (Relation.REPLACE_SPECIAL, "zero_out"),
    ],
)
def test_accountants_of_dp_accounting_are_accepted_with_their_relation(relation: Relation, read: str) -> None:
    answer = Local().advantage(Ledger(relation))
    assert answer.response.mechanism == GAUSSIAN
    assert isinstance(answer.response.threat_model, WorstCaseThreatModel)
    assert answer.response.threat_model.neighboring_relation == read
    expected = Local().advantage(GAUSSIAN, threat_model={"type": "worst_case", "neighboring_relation": read})
    assert answer.value == expected.value


SHORT_FORMS: list[Any] = [
    (1.0, 0.01, 1000),
    [1.0, 0.01, 1000],
    (np.float64(1.0), np.float32(0.01).astype(float).round(6), np.int64(1000)),
    {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
]


@pytest.mark.parametrize("run", SHORT_FORMS)
def test_short_form_is_read_as_dpsgd_with_note(run: Any) -> None:
    local = Local()
    sent = RecordingClient()
    answer = sent.epsilon(run, delta=1e-5)
    assert sent.bodies[0]["mechanism"] == RUN  # with its type: nothing is guessed on the wire
    assert answer == local.epsilon(RUN, delta=1e-5)
    note = "The run was read as dpsgd (Poisson sampling): noise_multiplier 1.0, sample_rate 0.01, steps 1000."
    assert answer.read_as == (note,)
    assert note in answer.notes
    question = {"type": "epsilon", "delta": 1e-5}
    context = {"delta": 1e-5, "dataset_size": 48_000}
    for value in (
        local.bounds(run, [question]),
        local.sweep(run, {"/mechanism/steps": [1, 2]}, [question]),
        local.curves(run, [0.1]),
        local.assess(run, context),
        local.calibrate(run, [{"question": question, "at_most": 1.0}], relative_tolerance=1e-2),
        local.check(run, [{"question": question, "value": 2.0}]),
    ):
        assert value.read_as == (note,)
        assert note in repr(value)
        assert note in value._repr_html_()
    assert local.compare({"a": run, "b": RUN}, [question]).read_as == (f"a: {note}",)


@pytest.mark.parametrize("run", ["[1.0, 0.01, 1000]", '{"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}'])
def test_the_command_reads_a_short_form_as_dpsgd(run: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    file.write_text(run)
    context = '{"delta": 1e-5, "dataset_size": 48000}'
    assert main(["assess", str(file), "--context", context, "--json"]) == 0
    written = capfd.readouterr()
    assert json.loads(written.out)["digest"] == Local().assess(RUN, json.loads(context)).digest
    assert "read as dpsgd (Poisson sampling): noise_multiplier 1.0, sample_rate 0.01, steps 1000." in written.err


@pytest.mark.parametrize("run", [RUN, GAUSSIAN, HISTORY, RUN | {"noise_multiplier": [1.0, 2.0], "steps": [1, 2]}])
def test_run_with_type_has_no_note(run: Any) -> None:
    assert Local().epsilon(run, delta=1e-5).read_as == ()


@pytest.mark.parametrize(
    "run",
    [
        {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "extra": 1},
        {"noise_multiplier": 1.0, "steps": 1000},
    ],
)
def test_incomplete_short_form_is_rejected(run: Any) -> None:
    with pytest.raises(Refused):
        Local().epsilon(run, delta=1e-5)


@pytest.mark.parametrize("run", [(1.0, 0.01), (1.0, 0.01, "1000"), [1.0, 0.01, 1000, 1], ["prv"]])
def test_row_of_other_than_three_numbers_is_an_invalid_argument(run: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^run: three numbers \(noise multiplier, sampling rate, steps\)"):
        Local().epsilon(run, delta=1e-5)


@pytest.mark.parametrize("run", [None, 1.1, True])
def test_missing_run_is_an_invalid_argument(run: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"^run: a mechanism .* not {run}$"):
        Local().epsilon(run, delta=1e-5)


def test_single_question_target_or_claim_is_a_list_of_one() -> None:
    sent = RecordingClient()
    question = {"type": "advantage"}
    sent.bounds(RUN, question)
    sent.bounds(RUN, [question])
    sent.check(RUN, {"question": question, "value": 0.9})
    sent.calibrate(RUN, {"question": question, "at_most": 0.1})
    assert sent.bodies[0] == sent.bodies[1]
    assert sent.bodies[2]["claims"] == [{"question": question, "value": 0.9}]
    assert sent.bodies[3]["targets"] == [{"question": question, "at_most": 0.1}]


def test_million_equal_rows_are_merged() -> None:
    sent = RecordingClient()
    answer = sent.advantage([(5.0, 0.001, 1)] * 1_000_000, relative_tolerance=1e-3)
    meant = RUN | {"noise_multiplier": 5.0, "sample_rate": 0.001, "steps": 1_000_000}
    assert answer.response.mechanism == parsed_request(meant).mechanism
    assert sent.bodies[0]["mechanism"]["content"] == [[5.0, 0.001, 1_000_000]]


def test_every_method_sends_expected_question() -> None:
    sent = RecordingClient()
    answers: list[tuple[Number, dict[str, Any]]] = [
        (sent.epsilon(GAUSSIAN, 1e-5), {"type": "epsilon", "delta": 1e-5}),
        (sent.delta(GAUSSIAN, 1.0), {"type": "delta", "epsilon": 1.0}),
        (sent.advantage(GAUSSIAN), {"type": "advantage"}),
        (sent.accuracy(GAUSSIAN, 0.5), {"type": "attack_accuracy", "prior": 0.5}),
        (sent.gdp_mu(GAUSSIAN), {"type": "gdp_mu"}),
        (sent.reconstruction(GAUSSIAN, 0.001), {"type": "reconstruction", "baseline_success": 0.001}),
        (sent.reconstruction(GAUSSIAN, candidates=9), {"type": "reconstruction", "candidates": 9}),
    ]
    for (answer, question), body in zip(answers, sent.bodies, strict=True):
        assert body == {"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "questions": [question]}
        assert answer.lower is not None
        assert answer.upper is not None
        assert answer.lower <= answer.value == answer.upper == float(answer)
        assert answer.response.digest.startswith("sha256:")
        direct = json.loads(BOUNDS.body(parsed_request(body["mechanism"], question), answer.response.digest, "1"))[
            "answers"
        ][0]
        assert (direct["value"], direct["lower"]) == (answer.value, answer.lower)


def test_infinite_answer_is_a_float() -> None:
    assert Local().epsilon({"type": "approximate_dp", "epsilon": 1.0, "delta": 0.1}, delta=0.0).value == math.inf


def test_options_are_sent_with_the_request() -> None:
    answer = Local().advantage(
        GAUSSIAN, threat_model={"type": "worst_case", "neighboring_relation": "replace_one"}, relative_tolerance=1e-3
    )
    assert answer.value == pytest.approx(Local().advantage({"type": "gaussian", "noise_multiplier": 1.0}).value)
    assert answer.response.relative_tolerance == 1e-3


def test_columns_have_equal_length() -> None:
    rates = np.logspace(-6, -1, 4)
    power = Local().power(GAUSSIAN, rates)
    assert power.value == power.upper
    columns = power.columns()
    assert columns["false_positive_rate"] == list(power.false_positive_rates) == pytest.approx(list(rates))
    assert columns["power"] == list(power.value)
    assert columns["type_two_error"] == columns["type_two_error_lower"]
    bounds = Local().bounds(
        GAUSSIAN,
        [
            {"type": "epsilon", "delta": 1e-5},
            {"type": "trade_off", "fpr": [0.1, 0.2]},
            AdvantageQuestion(type="advantage"),
        ],
    )
    assert [type(each) for each in bounds] == [Number, Power, Number]
    assert len(bounds) == 3
    table = bounds.columns()
    assert {len(column) for column in table.values()} == {4}
    assert table["question"] == ["epsilon", "trade_off", "trade_off", "advantage"]
    assert table["false_positive_rate"] == [None, 0.1, 0.2, None]
    assert table["delta"] == [1e-5, None, None, None]
    assert table["value"] == table["upper"]


@pytest.mark.parametrize(
    ("run", "delta", "pointer", "remedy"),
    [
        (RUN | {"steps": 0}, 1e-5, "/mechanism/steps", "integer"),
        (RUN, 2.0, "/questions/0/delta", "[0, 1]"),
        (RUN, math.nan, "/questions/0/delta", "finite"),
        ([(1.0, 0.01, 0)], 1e-5, "/mechanism/content/0/2", "[1, 1e+12]"),
        ("pickled", 1e-5, "/mechanism/content", "unpickled"),
        (Accountant([]), 1e-5, "/mechanism/content/history", "after training"),
        (
            {
                "type": "composed",
                "mechanisms": [{"type": "mixture", "components": [{"weight": 1.0, "mechanism": RUN}]}],
            },
            1e-5,
            "/mechanism",
            "Supported",
        ),
    ],
    ids=["steps", "delta", "nan", "history", "text", "accountant", "mixture"],
)
def test_refusal_has_pointer_and_remedy(run: Any, delta: float, pointer: str, remedy: str) -> None:
    with pytest.raises(Refused) as caught:
        Local().epsilon(run, delta=delta)
    assert caught.value.pointer == pointer
    assert remedy in caught.value.remedy
    assert pointer in str(caught.value)
    assert caught.value.problem.status in (400, 422)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("run", [object(), {"type": "gaussian", "noise_multiplier": object()}, CIRCLE, 1j])
def test_run_that_is_not_json_is_an_invalid_argument(run: Any) -> None:
    for kind in (PrivacyBoundsError, TypeError, ValueError):
        with pytest.raises(kind, match="cannot be written as JSON"):
            Local().epsilon(run, delta=1e-5)


def test_path_without_resource_is_an_invalid_argument() -> None:
    for kind in (PrivacyBoundsError, ValueError):
        with pytest.raises(kind, match="no resource"):
            Local().send("/v1/nothing", b"{}")


def test_runs_without_names_are_an_invalid_argument() -> None:
    unnamed: Any = [RUN, RUN]
    with pytest.raises(InvalidArgument, match="mapping of names"):
        Local().compare(unnamed, [{"type": "advantage"}])


@pytest.mark.parametrize(
    ("form", "sentence"),
    [("text/nothing", "text/markdown"), ("markdown", "media type"), ("image/png", "not a text"), ("", "media type")],
)
def test_unknown_report_format_is_an_error_of_the_package(form: str, sentence: str) -> None:
    with pytest.raises(PrivacyBoundsError, match=sentence):
        Local().report(RUN, {"delta": 1e-5, "dataset_size": 48_000}, form=form)


def test_unknown_report_format_is_named_as_the_argument() -> None:
    """The error about an unknown format of a report names the argument `form`, because no caller sets `Accept`."""
    messages: list[str] = []
    for refused in (
        lambda: Local().report(RUN, {"delta": 1e-5}, form="text/pdf"),
        lambda: asyncio.run(AsyncClient(Local()).report(RUN, {"delta": 1e-5}, form="text/pdf")),
    ):
        with pytest.raises(Refused) as caught:
            refused()
        assert caught.value.remedy == caught.value.problem.detail
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith("Not acceptable (406). form: there is no answer as text/pdf.")
    assert "text/markdown" in messages[0]
    assert "Accept" not in messages[0]


def test_assessments_claims_and_imports_return_responses() -> None:
    local, context = Local(), {"delta": 1e-5, "dataset_size": 48_000}
    policy = {
        "version": 1,
        "name": "ours",
        "rules": [{"name": "little", "question": {"type": "epsilon", "delta": 1e-5}, "at_most": 1.0}],
    }
    assessed = local.assess(HISTORY, context, policy)
    assert assessed.verdict == "violated"
    assert assessed.statement in local.report(HISTORY, context, policy, form="text/plain")
    assert "(1.83, 1e-05)-differentially private" in local.report(HISTORY, context)
    [claim] = local.check(HISTORY, [{"question": {"type": "epsilon", "delta": 1e-5}, "value": 1.6177}]).claims
    assert claim.verdict == "unsafe"
    assert local.read(Accountant([[1.0, 0.01, 1000]])).not_carried_over
    assert local.read(HISTORY, format="opacus").mechanism == assessed.mechanism


@pytest.mark.parametrize("run", [GAUSSIAN, Accountant(HISTORY)], ids=["model", "accountant"])
def test_calibrated_noise_meets_its_target(run: Any) -> None:
    target = {"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 1.0}
    found = Local().calibrate(run, [target], relative_tolerance=1e-3)
    assert found.status == "met"
    assert found.witness is not None
    assert found.witness.value < found.value
    assert Local().epsilon(found.mechanism, delta=1e-5).value <= 1.0
    with pytest.raises(Refused) as caught:
        Local().calibrate(run, [target], free="/mechanism/nothing")
    assert caught.value.pointer == "/free"


def test_steps_of_history_can_be_calibrated() -> None:
    target = {"question": {"type": "advantage"}, "at_most": 0.2}
    found = Local().calibrate(HISTORY, [target], free="/mechanism/steps")
    assert isinstance(found.value, int)
    assert Local().advantage([(1.0, 0.01, found.value)]).value <= 0.2
    assert Local().advantage([(1.0, 0.01, found.value + 1)]).value > 0.2


def test_runs_are_compared_by_name() -> None:
    runs = {"noisy": [(1.2, 0.01, 1000)], "first": Accountant([(1.0, 0.01, 1000)])}
    asked_for = [{"type": "epsilon", "delta": 1e-5}, {"type": "trade_off", "false_positive_rates": [0.01, 0.1]}]
    found = Local().compare(runs, asked_for)
    assert [run.name for run in found.runs] == ["noisy", "first"]
    columns = table(found)
    assert {len(column) for column in columns.values()} == {3}
    assert columns["best"] == [("noisy",)] * 3
    power = Local().power(runs["first"], [0.01, 0.1])
    assert columns["first"] == [Local().epsilon(runs["first"], delta=1e-5).value, *power.value]
    assert columns["first lower"][1:] == list(power.lower)


def test_asynchronous_clients_have_the_same_methods() -> None:
    methods = {name for name in vars(Asking) if not name.startswith("_")} - {"send"}
    assert methods <= set(vars(AsyncClient))

    async def both() -> tuple[Number, Number]:
        client = AsyncClient(Local())
        return await asyncio.gather(client.epsilon(GAUSSIAN, delta=1e-5), client.advantage(GAUSSIAN))

    epsilon, advantage = asyncio.run(both())
    assert epsilon.value == Local().epsilon(GAUSSIAN, delta=1e-5).value
    assert advantage.value == Local().advantage(GAUSSIAN).value


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org", "127.0.0.1:8000"])
def test_url_other_than_http_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        Client(address)


def test_unreachable_server_raises_unreachable() -> None:
    with closing(reserved_port()) as place, pytest.raises(Unreachable, match="Nobody answers"):
        Client(f"http://127.0.0.1:{place.getsockname()[1]}", timeout=5).advantage(GAUSSIAN)


def test_calibration_defaults_to_noise_multiplier() -> None:
    asking = RecordingClient()
    target = {"question": AdvantageQuestion(type="advantage"), "at_most": 0.1}
    found = asking.calibrate(GAUSSIAN, [target])
    assert asking.bodies[0]["free"] == "/mechanism/noise_multiplier"
    assert found.status == "met"
    assert asking.advantage({"type": "gaussian", "noise_multiplier": found.value}).value <= 0.1
    fewer = asyncio.run(AsyncClient(Local()).calibrate(HISTORY, [target], "/mechanism/steps", relative_tolerance=0.1))
    assert isinstance(fewer.value, int)
