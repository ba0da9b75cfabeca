"""The questions that a notebook asks, once for everybody who can have them answered."""

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
from privacy_bounds.values import Bounds, Number, Power, Sweep, valued

Run: TypeAlias = Mapping[str, Any] | BaseModel | Sequence[Any] | object
"""What was run: a mechanism of the contract (a dict with its `type`, or a model), the state of another library (a dict
without), an accountant with a `state_dict`, its history, or an event of dp_accounting."""
Object: TypeAlias = Mapping[str, Any] | BaseModel
"""Any other object of the contract: a dict, or a model."""
ResponseT = TypeVar("ResponseT", bound=Response)
JSON: Final = "application/json"
ROW: Final = 3


class Options(TypedDict, total=False):
    """Members of a request for bounds beside mechanism and questions; what is absent has its default."""

    threat_model: Object
    dataset_subsampling: Object
    relative_tolerance: float
    method: str
    digits: int


class Asking(ABC):
    """Whoever answers requests of the contract. Every method raises PrivacyBoundsError."""

    @abstractmethod
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        """The response to a request as JSON, or in another form that the resource has. Raises PrivacyBoundsError."""

    @final
    def epsilon(self, run: Run, delta: float, **options: Unpack[Options]) -> Number:
        """Smallest epsilon at this delta, in nats."""
        return self._number(run, {"type": "epsilon", "delta": delta}, options)

    @final
    def delta(self, run: Run, epsilon: float, **options: Unpack[Options]) -> Number:
        """Smallest delta at this epsilon."""
        return self._number(run, {"type": "delta", "epsilon": epsilon}, options)

    @final
    def advantage(self, run: Run, **options: Unpack[Options]) -> Number:
        """The most by which true and false positive rate of an attack differ."""
        return self._number(run, {"type": "advantage"}, options)

    @final
    def gdp_mu(self, run: Run, **options: Unpack[Options]) -> Number:
        """Smallest mu of Gaussian differential privacy, where both error rates are at least 1e-9."""
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
        """Largest chance to reconstruct a record that is guessed with this chance without the run; or one of so many
        equally likely candidates.
        """
        sent = {"baseline_success": baseline_success, "candidates": candidates}
        given = {name: value for name, value in sent.items() if value is not None}
        return self._number(run, {"type": "reconstruction", **given}, options)

    @final
    def power(
        self, run: Run, false_positive_rates: Iterable[float], direction: str = "add", **options: Unpack[Options]
    ) -> Power:
        """Largest power of an attack at each false positive rate: any iterable, an array as well."""
        question = {"type": "trade_off", "false_positive_rates": false_positive_rates, "direction": direction}
        found = self.bounds(run, [question], **options)[0]
        return cast("Power", found)

    @final
    def bounds(self, run: Run, questions: Iterable[Object], **options: Unpack[Options]) -> Bounds:
        """The answers to up to 256 questions at once."""
        request = {"mechanism": mechanism_of(run), "questions": list(questions), **options}
        return Bounds(self.ask("/v1/bounds", request, BoundsResponse))

    @final
    def calibrate(
        self, run: Run, targets: Iterable[Object], free: str = "/mechanism/noise_multiplier", **more: Any
    ) -> CalibrationsResponse:
        """The least private number at which every target is met, and the `witness` beside it at which one fails.

        A target is a question with `at_most` or `at_least`; `free` is a JSON pointer to any number of the request, and
        leads into the mechanism that is read where the run is a state of another library.
        """
        request = {"mechanism": mechanism_of(run), "free": free, "targets": list(targets), **more}
        return self.ask("/v1/calibrations", request, CalibrationsResponse)

    @final
    def compare(self, runs: Mapping[str, Run], questions: Iterable[Object], **more: Any) -> ComparisonsResponse:
        """Runs side by side, by their names: who is better in what, and whose curve is harder to attack. `table` makes
        columns of it.
        """
        if not isinstance(runs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - notebooks have no type checker
            raise TypeError("runs: a mapping of names to runs")
        named = [{"name": name, "mechanism": mechanism_of(run)} for name, run in runs.items()]
        request = {"runs": named, "questions": list(questions), **more}
        return self.ask("/v1/comparisons", request, ComparisonsResponse)

    @final
    def sweep(
        self,
        run: Run,
        vary: Mapping[str, Any],
        questions: Iterable[Object],
        combine: str = "product",
        **more: Any,
    ) -> Sweep:
        """The same questions about many runs. `vary`: JSON pointers to numbers of the request, each with its numbers,
        or with `from`, `to`, `count` and `spacing`.
        """
        numbers: dict[str, Any] = {
            pointer: each if isinstance(each, Mapping | BaseModel) else {"values": each}
            for pointer, each in vary.items()
        }
        request: dict[str, Any] = {"mechanism": mechanism_of(run), "vary": numbers, "combine": combine, **more}
        return Sweep(self.ask("/v1/sweeps", {**request, "questions": list(questions)}, SweepsResponse))

    @final
    def assess(self, run: Run, context: Object, policy: Object | None = None, **more: Any) -> AssessmentsResponse:
        """What to say about a run, and whether it keeps a policy."""
        return self.ask("/v1/assessments", _assessment(run, context, policy, more), AssessmentsResponse)

    @final
    def report(
        self, run: Run, context: Object, policy: Object | None = None, form: str = "text/markdown", **more: Any
    ) -> str:
        """Return an assessment in another form, by its media type: Markdown for a model card, `text/plain`,
        `application/vnd.mlflow.run+json`, `application/vnd.cyclonedx+json`, `application/ld+json`, `application/yaml`.
        """
        return self.send("/v1/assessments", encoded(_assessment(run, context, policy, more)), form).decode()

    @final
    def check(self, run: Run, claims: Iterable[Object], **more: Any) -> ClaimsResponse:
        """Verdicts on numbers that are claimed: each a question and its `value`."""
        request = {"mechanism": mechanism_of(run), "claims": list(claims), **more}
        return self.ask("/v1/claims", request, ClaimsResponse)

    @final
    def read(self, state: Run, format: str = "detect") -> ImportsResponse:  # noqa: A002 - the name on the wire
        """The mechanism that the state of another library describes."""
        return self.ask("/v1/imports", {"format": format, "content": content_of(state)}, ImportsResponse)

    @final
    def ask(self, path: str, request: Mapping[str, Any], response_type: type[ResponseT]) -> ResponseT:
        """The response of any resource. Values of numpy and models of the contract are written as what they mean."""
        return response_type.model_validate_json(self.send(path, encoded(request)))

    def _number(self, run: Run, question: Mapping[str, Any], options: Options) -> Number:
        bounds = self.bounds(run, [question], **options)
        return cast("Number", valued(bounds.response.answers[0], bounds.response))


def _assessment(run: Run, context: Object, policy: Object | None, more: Mapping[str, Any]) -> dict[str, Any]:
    request = {"mechanism": mechanism_of(run), "context": context, **more}
    return request if policy is None else {**request, "policy": policy}


def mechanism_of(run: Run) -> Any:
    """A run as a mechanism of the contract: itself, or what is imported."""
    content: object = content_of(run)
    if isinstance(content, BaseModel):
        return content
    if isinstance(content, dict) and "type" in content:
        return cast("dict[str, Any]", content)
    return {"type": "imported", "content": cast("object", content)}


def content_of(run: Run) -> Any:
    """What other libraries keep of a run, as they write it; equal neighbours of a history are one row."""
    if callable(made := getattr(run, "state_dict", None)) or callable(made := getattr(run, "to_named_tuple", None)):
        run = made()
    if isinstance(run, Mapping):
        held = dict(cast("Mapping[str, Any]", run))
        return held | {"history": _merged(held["history"])} if "history" in held else held
    return _merged(cast("Any", run)) if isinstance(run, list | tuple) else run


def _merged(history: Any) -> Any:
    """Rows of noise, rate and steps: an accountant that is stepped by hand may have a million equal ones."""
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


def encoded(request: Mapping[str, Any]) -> bytes:
    """A request as it is sent."""
    return json.dumps(request, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if callable(listed := getattr(value, "tolist", None)):  # numbers and arrays of numpy, tensors
        return listed()
    return list(value)
