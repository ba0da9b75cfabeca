"""Questions about training runs, as methods that every client shares.

A *run* is a mechanism (for example DP-SGD with its noise, sampling rate and steps) or the state of an accountant of
another library. Options, policies and contexts are JSON objects of the HTTP contract.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast, final

from pydantic import BaseModel
from typing_extensions import TypedDict, Unpack

from api_schemas.assessments import AssessmentsResponse
from api_schemas.base import Response
from api_schemas.bounds import BoundsResponse
from api_schemas.calibration_answers import CalibrationsResponse
from api_schemas.claims import ClaimsResponse
from api_schemas.comparisons import ComparisonsResponse
from api_schemas.imports import ImportsResponse
from api_schemas.sweeps import SweepsResponse
from privacy_bounds.values import Bounds, Number, Power, Sweep, to_value

Run: TypeAlias = Mapping[str, Any] | BaseModel | Sequence[Any] | object
"""Training run or release. A run is a mechanism of the contract (a model, or a dict with a `type`), the state of
another library (a dict without a `type`), an accountant with a `state_dict`, its history, or an event of dp_accounting.
"""
Object: TypeAlias = Mapping[str, Any] | BaseModel
"""Object of the contract: a dict or a model."""
ResponseT = TypeVar("ResponseT", bound=Response)
JSON: Final = "application/json"
ROW: Final = 3


class Options(TypedDict, total=False):
    """Optional members of a request for bounds. Absent members have their defaults."""

    threat_model: Object
    dataset_subsampling: Object
    relative_tolerance: float
    method: str
    digits: int


class Asking(ABC):
    """Base of all clients: each method sends one request of the contract. Every method raises PrivacyBoundsError."""

    @abstractmethod
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        """Send a request and return the response body in a media type. Raise PrivacyBoundsError."""

    @final
    def epsilon(self, run: Run, delta: float, **options: Unpack[Options]) -> Number:
        """Compute the smallest epsilon at this delta, in nats."""
        return self._number(run, {"type": "epsilon", "delta": delta}, options)

    @final
    def delta(self, run: Run, epsilon: float, **options: Unpack[Options]) -> Number:
        """Compute the smallest delta (a probability) at this epsilon in nats."""
        return self._number(run, {"type": "delta", "epsilon": epsilon}, options)

    @final
    def advantage(self, run: Run, **options: Unpack[Options]) -> Number:
        """Compute the largest difference between true and false positive rate of a membership inference attack."""
        return self._number(run, {"type": "advantage"}, options)

    @final
    def gdp_mu(self, run: Run, **options: Unpack[Options]) -> Number:
        """Compute the smallest mu of Gaussian differential privacy, where both error rates are at least 1e-9."""
        return self._number(run, {"type": "gdp_mu"}, options)

    @final
    def reconstruction(
        self,
        run: Run,
        baseline_success: float | None = None,
        *,
        candidates: int | None = None,
        **options: Unpack[Options],
    ) -> Number:
        """Compute the largest probability that an attacker reconstructs a record.

        `baseline_success` is the probability of success without access to the run. `candidates` is the number of
        equally likely records, in place of this probability.
        """
        sent = {"baseline_success": baseline_success, "candidates": candidates}
        given = {name: value for name, value in sent.items() if value is not None}
        return self._number(run, {"type": "reconstruction", **given}, options)

    @final
    def power(
        self, run: Run, false_positive_rates: Iterable[float], direction: str = "add", **options: Unpack[Options]
    ) -> Power:
        """Compute the largest true positive rate (power) of an attack at each false positive rate.

        The rates are any iterable or array. `direction` is "add" (the null hypothesis is the data without the record)
        or "remove".
        """
        question = {"type": "trade_off", "false_positive_rates": false_positive_rates, "direction": direction}
        found = self.bounds(run, [question], **options)[0]
        return cast("Power", found)

    @final
    def bounds(self, run: Run, questions: Iterable[Object], **options: Unpack[Options]) -> Bounds:
        """Answer up to 256 questions about one run."""
        request = {"mechanism": mechanism_of(run), "questions": list(questions), **options}
        return Bounds(self.post("/v1/bounds", request, BoundsResponse))

    @final
    def calibrate(
        self, run: Run, targets: Iterable[Object], free: str = "/mechanism/noise_multiplier", **more: Any
    ) -> CalibrationsResponse:
        """Find the least private value of one number of the run at which every target is met.

        The response also has the `witness`, a neighbouring value at which a target fails. A target is a question with
        `at_most` or `at_least`. `free` is a JSON pointer to a number of the request. If the run is a state of another
        library, the pointer refers to the imported mechanism.
        """
        request = {"mechanism": mechanism_of(run), "free": free, "targets": list(targets), **more}
        return self.post("/v1/calibrations", request, CalibrationsResponse)

    @final
    def compare(self, runs: Mapping[str, Run], questions: Iterable[Object], **more: Any) -> ComparisonsResponse:
        """Compare named runs: the best run for each question, and the run whose curve is harder to attack.

        The function `table` converts the response to columns.
        """
        if not isinstance(runs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - notebooks have no type checker
            raise TypeError("runs: a mapping of names to runs")
        named = [{"name": name, "mechanism": mechanism_of(run)} for name, run in runs.items()]
        request = {"runs": named, "questions": list(questions), **more}
        return self.post("/v1/comparisons", request, ComparisonsResponse)

    @final
    def sweep(
        self,
        run: Run,
        vary: Mapping[str, Any],
        questions: Iterable[Object],
        combine: str = "product",
        **more: Any,
    ) -> Sweep:
        """Answer the same questions about many runs.

        `vary` maps JSON pointers (numbers of the request) to a list of numbers, or to an object with `from`, `to`,
        `count` and `spacing`. `combine` is "product" (every combination) or "zip" (element by element).
        """
        numbers: dict[str, Any] = {
            pointer: each if isinstance(each, Mapping | BaseModel) else {"values": each}
            for pointer, each in vary.items()
        }
        request: dict[str, Any] = {"mechanism": mechanism_of(run), "vary": numbers, "combine": combine, **more}
        return Sweep(self.post("/v1/sweeps", {**request, "questions": list(questions)}, SweepsResponse))

    @final
    def assess(self, run: Run, context: Object, policy: Object | None = None, **more: Any) -> AssessmentsResponse:
        """Evaluate the standard questions about a run, and decide whether the run meets a policy.

        `context` describes the release and the data; `policy` has limits on the answers. None: no policy.
        """
        return self.post("/v1/assessments", _assessment(run, context, policy, more), AssessmentsResponse)

    @final
    def report(
        self, run: Run, context: Object, policy: Object | None = None, form: str = "text/markdown", **more: Any
    ) -> str:
        """Return an assessment as text in the media type `form`.

        Media types: `text/markdown` (model card), `text/plain`, `application/vnd.mlflow.run+json`,
        `application/vnd.cyclonedx+json`, `application/ld+json` and `application/yaml`.
        """
        return self.send("/v1/assessments", encode(_assessment(run, context, policy, more)), form).decode()

    @final
    def check(self, run: Run, claims: Iterable[Object], **more: Any) -> ClaimsResponse:
        """Check claimed numbers, and return a verdict on each. A claim is a question with a `value`."""
        request = {"mechanism": mechanism_of(run), "claims": list(claims), **more}
        return self.post("/v1/claims", request, ClaimsResponse)

    @final
    def read(self, state: Run, format: str = "detect") -> ImportsResponse:  # noqa: A002 - the name on the wire
        """Return the mechanism that the state of another library describes. `format` names the library."""
        return self.post("/v1/imports", {"format": format, "content": foreign_state(state)}, ImportsResponse)

    @final
    def post(self, path: str, request: Mapping[str, Any], response_type: type[ResponseT]) -> ResponseT:
        """Send a request to the resource at `path` and return its response as a model.

        NumPy values and models of the contract are converted to JSON.
        """
        return response_type.model_validate_json(self.send(path, encode(request)))

    ask = post
    """Former name of `post`."""

    def _number(self, run: Run, question: Mapping[str, Any], options: Options) -> Number:
        bounds = self.bounds(run, [question], **options)
        return cast("Number", to_value(bounds.response.answers[0], bounds.response))


def _assessment(run: Run, context: Object, policy: Object | None, more: Mapping[str, Any]) -> dict[str, Any]:
    request = {"mechanism": mechanism_of(run), "context": context, **more}
    return request if policy is None else {**request, "policy": policy}


def mechanism_of(run: Run) -> Any:
    """Return a run as a mechanism: unchanged if it is one, otherwise as an imported mechanism."""
    content: object = foreign_state(run)
    if isinstance(content, BaseModel):
        return content
    if isinstance(content, dict) and "type" in content:
        return cast("dict[str, Any]", content)
    return {"type": "imported", "content": cast("object", content)}


def foreign_state(run: Run) -> Any:
    """Return the state of another library as the library serialises it.

    Equal neighbouring rows of an accountant's history are merged.
    """
    if callable(made := getattr(run, "state_dict", None)) or callable(made := getattr(run, "to_named_tuple", None)):
        run = made()
    if isinstance(run, Mapping):
        held = dict(cast("Mapping[str, Any]", run))
        return held | {"history": _merge_rows(held["history"])} if "history" in held else held
    return _merge_rows(cast("Any", run)) if isinstance(run, list | tuple) else run


def _merge_rows(history: Any) -> Any:
    """Merge equal neighbouring rows (noise, rate, steps) of a history.

    An accountant that is stepped manually may have a million equal rows.
    """
    merged: list[Any] = []
    for row in history:
        if not isinstance(row, list | tuple) or len(cast("list[Any]", row)) != ROW:
            return history
        noise, rate, steps = cast("list[Any]", row)
        if merged and merged[-1][:2] == [noise, rate]:
            merged[-1][2] += steps
        else:
            merged.append([noise, rate, steps])
    return merged


def encode(request: Mapping[str, Any]) -> bytes:
    """Encode a request as JSON."""
    return json.dumps(request, default=_to_json).encode()


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if callable(listed := getattr(value, "tolist", None)):  # numbers and arrays of numpy, tensors
        return listed()
    return list(value)
