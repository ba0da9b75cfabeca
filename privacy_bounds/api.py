"""Questions about training runs, as methods that every client shares.

A *run* is a mechanism (for example DP-SGD with its noise, sampling rate and steps) or the state of an accountant of
another library. Options, policies and contexts are JSON objects of the HTTP contract.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, final

from pydantic import BaseModel
from typing_extensions import TypedDict, Unpack, deprecated

from privacy_bounds.calls import JSON, Call, asks, encode, read_response
from privacy_bounds.errors import InvalidAnswer, InvalidArgument
from privacy_bounds.pictures import Origin
from privacy_bounds.runs import Notes, Run, foreign_state, mechanism_of, read_run
from privacy_bounds.series import Curves, Sweep
from privacy_bounds.values import Bounds, Number, Power

if TYPE_CHECKING:
    from api_schemas.base import Response
    from api_schemas.certificates import CertificatesResponse
    from api_schemas.imports import ImportsResponse
    from privacy_bounds.reports import Assessment, Calibration, CheckedClaims, RunComparison

__all__ = ["Asking", "Object", "Options", "Run", "encode", "foreign_state", "mechanism_of"]

Object: TypeAlias = Mapping[str, Any] | BaseModel
"""Object of the contract: a dict or a model."""
ResponseT = TypeVar("ResponseT", bound="Response")


class Options(TypedDict, total=False):
    """Optional members of a request for bounds. Absent members have the defaults of the service.

    `order` belongs to the method edgeworth, `digits` to ground_truth, and the last three members to monte_carlo.
    """

    threat_model: Object
    dataset_subsampling: Object
    relative_tolerance: float
    method: str
    digits: int
    order: int
    samples: int
    seed: int
    confidence: float


class Asking(ABC):
    """Base of all clients: each method sends one request of the contract, and raises PrivacyBoundsError on failure.

    Subclasses say how a request is sent. `options` are the members of the type `Options`, such as `threat_model`.
    `more` are further members of the request, by their names in the contract.
    """

    @abstractmethod
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        """Send a JSON request body to `path`, and return the response body in a media type.

        Raise Refused for an invalid request, and another PrivacyBoundsError without a usable answer.
        """

    @final
    @asks
    def epsilon(self, run: Run, delta: float, **options: Unpack[Options]) -> Call[Number]:
        """Compute the smallest epsilon (nats) with (epsilon, delta)-DP of `run` at this `delta` in [0, 1].

        The value is infinite if no finite epsilon is proved.
        """
        return _number(run, {"type": "epsilon", "delta": delta}, options)

    @final
    @asks
    def delta(self, run: Run, epsilon: float, **options: Unpack[Options]) -> Call[Number]:
        """Compute the smallest delta (a probability) with (epsilon, delta)-DP of `run` at this `epsilon` in nats."""
        return _number(run, {"type": "delta", "epsilon": epsilon}, options)

    @final
    @asks
    def advantage(self, run: Run, **options: Unpack[Options]) -> Call[Number]:
        """Compute the largest difference of true and false positive rate of a membership attack, a number in [0, 1]."""
        return _number(run, {"type": "advantage"}, options)

    @final
    @asks
    def accuracy(self, run: Run, prior: float, **options: Unpack[Options]) -> Call[Number]:
        """Compute the largest share of right guesses about membership. `prior` is the probability of a member."""
        return _number(run, {"type": "attack_accuracy", "prior": prior}, options)

    @final
    @asks
    def gdp_mu(self, run: Run, **options: Unpack[Options]) -> Call[Number]:
        """Compute the smallest mu (a number without unit) for which the run is mu-GDP (Gaussian differential privacy).

        The curve of mu-GDP has to lie below that of the run only where both error rates are at least 1e-9.
        """
        return _number(run, {"type": "gdp_mu"}, options)

    @final
    @asks
    def reconstruction(
        self,
        run: Run,
        baseline_success: float | None = None,
        *,
        candidates: int | None = None,
        **options: Unpack[Options],
    ) -> Call[Number]:
        """Compute the largest probability that an attacker reconstructs a record.

        `baseline_success` is the probability of success without access to the run. `candidates` is the number of
        equally likely records, in place of this probability; give one of both.
        """
        sent = {"baseline_success": baseline_success, "candidates": candidates}
        given = {name: value for name, value in sent.items() if value is not None}
        return _number(run, {"type": "reconstruction", **given}, options)

    @final
    @asks
    def power(
        self, run: Run, false_positive_rates: Iterable[float], direction: str = "add", **options: Unpack[Options]
    ) -> Call[Power]:
        """Compute the largest true positive rate (power) of an attack at each false positive rate.

        The rates are any iterable or array. `direction` is "add" (the null hypothesis is the data without the record),
        "remove" (with it), or "both" (the worse of both directions at each rate).
        """
        question = {"type": "trade_off", "false_positive_rates": false_positive_rates, "direction": direction}
        path, request, notes = _path_body_and_notes(run, "/v1/bounds", {"questions": [question], **options})
        return Call(path, request, lambda body, origin: cast("Power", _read_first(body, origin)), notes=notes)

    @final
    @asks
    def bounds(self, run: Run, questions: Object | Iterable[Object], **options: Unpack[Options]) -> Call[Bounds]:
        """Answer up to 256 questions about one run, and return the answers with both bounds in their order."""
        path, request, notes = _path_body_and_notes(run, "/v1/bounds", {"questions": _as_list(questions), **options})
        return Call(path, request, _read_bounds, notes=notes)

    @final
    @asks
    def curves(
        self,
        run: Run,
        false_positive_rates: Iterable[float] | None = None,
        *,
        threat_models: Iterable[Object] | None = None,
        methods: Iterable[str] | None = None,
        directions: Iterable[str] | None = None,
        **more: Any,
    ) -> Call[Curves]:
        """Compute trade-off curves: one for each threat model, method and direction.

        The default of `false_positive_rates` is 200 rates from 1e-12 to 0.5; `grid` chooses other ranges. The default
        threat model is the worst case.
        """
        sent = {
            "false_positive_rates": false_positive_rates,
            "threat_models": threat_models,
            "methods": methods,
            "directions": directions,
        }
        given = {name: list(value) for name, value in sent.items() if value is not None}
        path, request, notes = _path_body_and_notes(run, "/v1/curves", {**given, **more})
        return Call(path, request, _read_curves, notes=notes)

    @final
    @asks
    def calibrate(
        self, run: Run, targets: Object | Iterable[Object], free: str = "/mechanism/noise_multiplier", **more: Any
    ) -> Call[Calibration]:
        """Find the least private value of one number of the run at which every target is met.

        The response also has the `witness`, a neighbouring value at which a target fails, or None with the reason in
        `no_witness`. A target is an object `{"question": ..., "at_most": ...}` or one with `at_least`. `free` is a JSON
        pointer to a number of the request. If the run is a state of another library, the pointer refers to the imported
        mechanism.
        """
        from privacy_bounds.reports import Calibration

        path, request, notes = _path_body_and_notes(
            run, "/v1/calibrations", {"free": free, "targets": _as_list(targets), **more}
        )
        return Call(path, request, Calibration.read, notes=notes)

    @final
    @asks
    def compare(
        self, runs: Mapping[str, Run], questions: Object | Iterable[Object], **more: Any
    ) -> Call[RunComparison]:
        """Compare named runs: the best run for each question, and the run whose curve is harder to attack.

        The direction of the curves is a member of the request. The function `table` converts the response to columns.
        """
        from privacy_bounds.reports import RunComparison

        if not isinstance(runs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - notebooks have no type checker
            raise InvalidArgument("runs: a mapping of names to runs")
        read = {name: read_run(run) for name, run in runs.items()}
        named = [{"name": name, "mechanism": mechanism} for name, (mechanism, _) in read.items()]
        notes = tuple(f"{name}: {note}" for name, (_, found) in read.items() for note in found)
        request = {"runs": named, "questions": _as_list(questions), **more}
        return Call("/v1/comparisons", request, RunComparison.read, notes=notes)

    @final
    @asks
    def sweep(
        self,
        run: Run,
        vary: Mapping[str, Any],
        questions: Object | Iterable[Object],
        combine: str = "product",
        **more: Any,
    ) -> Call[Sweep]:
        """Answer the same `questions` about many runs, which differ in one or more numbers of `run`.

        `vary` maps JSON pointers (numbers of the request) to a list of numbers, or to an object with `from`, `to`,
        `count` and `spacing`. `combine` is "product" (every combination) or "zip" (element by element).
        """
        numbers: dict[str, Any] = {
            pointer: each if isinstance(each, Mapping | BaseModel) else {"values": each}
            for pointer, each in vary.items()
        }
        members = {"vary": numbers, "combine": combine, **more, "questions": _as_list(questions)}
        path, request, notes = _path_body_and_notes(run, "/v1/sweeps", members)
        return Call(path, request, _read_sweep, notes=notes)

    @final
    @asks
    def assess(self, run: Run, context: Object, policy: Object | None = None, **more: Any) -> Call[Assessment]:
        """Evaluate the standard questions about a run, and decide whether the run meets a policy.

        `context` describes the release and the data; `policy` has limits on the answers. Without it (None) the response
        has no decision.
        """
        from privacy_bounds.reports import Assessment

        path, request, notes = _path_body_and_notes(run, "/v1/assessments", _judged(context, policy, more))
        return Call(path, request, Assessment.read, notes=notes)

    @final
    @asks
    def report(
        self, run: Run, context: Object, policy: Object | None = None, form: str = "text/markdown", **more: Any
    ) -> Call[str]:
        """Return an assessment as text in the media type `form`.

        Media types: `text/markdown` (model card), `text/plain`, `application/vnd.mlflow.run+json`,
        `application/vnd.cyclonedx+json`, `application/ld+json` and `application/yaml`. `context` describes the release
        and the data, and `policy` has limits on the answers (None: no decision). Raise InvalidArgument for a media type
        that is not a text, and Refused for an unknown one.
        """
        if "/" not in form:
            raise InvalidArgument(f"form: a media type such as text/markdown, not {form!r}")
        path, request, notes = _path_body_and_notes(run, "/v1/assessments", _judged(context, policy, more))
        return Call(path, request, lambda body, _: _read_text(body, form), form, notes)

    @final
    @asks
    def check(self, run: Run, claims: Object | Iterable[Object], **more: Any) -> Call[CheckedClaims]:
        """Check claimed numbers, and return a verdict on each.

        A claim is an object `{"question": ..., "value": ...}`. The verdict is `unsafe`, `loose`, `consistent` or
        `undecided`.
        """
        from privacy_bounds.reports import CheckedClaims

        path, request, notes = _path_body_and_notes(run, "/v1/claims", {"claims": _as_list(claims), **more})
        return Call(path, request, CheckedClaims.read, notes=notes)

    @final
    @asks
    def certify(
        self, run: Run, question: Object, value: float | None = None, **more: Any
    ) -> Call[CertificatesResponse]:
        """Prove one number of `run` with the independent checker, and return its verdict.

        The verdict is proved, refuted or not decided. The number is `value`, or without one the safe bound that the
        method `bounds` answers to `question`.
        """
        from api_schemas.certificates import CertificatesResponse

        given = {} if value is None else {"value": "Infinity" if value == math.inf else value}
        path, request, notes = _path_body_and_notes(run, "/v1/certificates", {"question": question, **given, **more})
        return Call(path, request, lambda body, _: read_response(CertificatesResponse, body), notes=notes)

    @final
    @asks
    def read(self, state: Run, format: str = "detect") -> Call[ImportsResponse]:  # noqa: A002 - the name on the wire
        """Return the mechanism that the state of another library describes.

        `format` names the library; `detect` recognises the state. Raise Refused for a state that no reader or more than
        one recognises.
        """
        from api_schemas.imports import ImportsResponse

        request = {"format": format, "content": foreign_state(state)}
        return Call("/v1/imports", request, lambda body, _: read_response(ImportsResponse, body))

    @final
    @asks
    def post(self, path: str, request: Mapping[str, Any], response_type: type[ResponseT]) -> Call[ResponseT]:
        """Send a request to the resource at `path` and return its response as a model.

        `response_type` is a class of the package `api_schemas`, for example `BoundsResponse` of `api_schemas.bounds`.
        The wheel has this package in `privacy_bounds._implementation`. The method `send` needs no class. NumPy
        values and models of the contract are converted to JSON.
        """
        return Call(path, request, lambda body, _: read_response(response_type, body))

    ask = deprecated("Use `post`: `ask` is its former name.")(post)
    """Former name of `post`."""


def _path_body_and_notes(run: Run, path: str, members: Mapping[str, Any]) -> tuple[str, dict[str, Any], Notes]:
    mechanism, notes = read_run(run)
    return path, {"mechanism": mechanism, **members}, notes


def _as_list(objects: Object | Iterable[Object]) -> list[Object]:
    if isinstance(objects, Mapping | BaseModel):
        return [cast("Object", objects)]
    return list(objects)


def _number(run: Run, question: Mapping[str, Any], options: Options) -> Call[Number]:
    path, request, notes = _path_body_and_notes(run, "/v1/bounds", {"questions": [question], **options})
    return Call(path, request, lambda body, origin: cast("Number", _read_first(body, origin)), notes=notes)


def _judged(context: Object, policy: Object | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"context": context, **more} | ({} if policy is None else {"policy": policy})


def _read_bounds(body: bytes, origin: Origin) -> Bounds:
    from api_schemas.bounds import BoundsResponse

    return Bounds(read_response(BoundsResponse, body), origin)


def _read_first(body: bytes, origin: Origin) -> Number | Power:
    bounds = _read_bounds(body, origin)
    if not len(bounds):
        raise InvalidAnswer("The answer is not from this service: it answers no question.")
    return bounds[0]


def _read_curves(body: bytes, origin: Origin) -> Curves:
    from api_schemas.curves import CurvesResponse

    return Curves(read_response(CurvesResponse, body), origin)


def _read_sweep(body: bytes, origin: Origin) -> Sweep:
    from api_schemas.sweeps import SweepsResponse

    return Sweep(read_response(SweepsResponse, body), origin)


def _read_text(body: bytes, form: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"form: {form} is not a text; `send` returns its bytes") from None
