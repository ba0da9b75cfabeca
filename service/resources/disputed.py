"""Disputed runs: runs about which two independent engines disagree. No resource serves a number of such a run.

A *run* is a mechanism with one threat model. All numbers of a run come from the same trade-off curves, so that a wrong
number casts doubt on all of them. The digest of a run is that of both parts in canonical form with the engine version,
and does not depend on how a composition is written.
Without disputed runs, a check is one lookup of a context variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, cast, final

from pydantic_core import from_json

from api_schemas.threat_models import WorstCaseThreatModel, worst_case_beside
from service.privacy.errors import DisputedRun
from service.resources.abstract import BodyProducer
from service.resources.digest import canonical_text, text_digest

Runs = frozenset[str]
"""Digests of runs."""
NO_RUNS: Final[Runs] = frozenset()

_refused: ContextVar[tuple[str, Runs] | None] = ContextVar("refused", default=None)


def run_digest(engine_version: str, mechanism: Any, threat_model: Any) -> str:
    """Return the digest of a run. Its parts are models of a request, or plain JSON of a response.

    Compositions of the same mechanisms have the same digest: one mechanism, a composition of it alone, and one step of
    it; steps of steps; and the same mechanisms in another order.
    """
    composed = _multiset_form(from_json(canonical_text(mechanism)))
    run = {"engine_version": engine_version, "mechanism": composed, "threat_model": threat_model}
    return text_digest(canonical_text(run))


def _multiset_form(value: Any) -> Any:
    # plain JSON in which each composition is the sorted list of its mechanisms with their numbers of steps
    if isinstance(value, list):
        return [_multiset_form(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    held = cast("dict[str, Any]", value)
    if held.get("type") not in ("repeated", "composed"):
        return {key: _multiset_form(each) for key, each in held.items()}
    counts = Counter[str]()
    _count_steps(held, 1, counts)
    return sorted([text, str(steps)] for text, steps in counts.items()) if counts.total() > 1 else from_json(*counts)


def _count_steps(mechanism: dict[str, Any], steps: int, counts: Counter[str]) -> None:
    if mechanism.get("type") == "repeated":
        _count_steps(mechanism["mechanism"], steps * int(mechanism["steps"]), counts)
    elif mechanism.get("type") == "composed":
        for each in mechanism["mechanisms"]:
            _count_steps(each, steps, counts)
    else:
        counts[canonical_text(_multiset_form(mechanism))] += steps


@contextmanager
def refusing(engine_version: str, runs: Runs) -> Generator[None]:
    """Make `refuse_disputed` raise for the runs with the digests `runs` while the block runs.

    `engine_version` is the version in these digests.
    """
    token = _refused.set((engine_version, runs) if runs else None)
    try:
        yield
    finally:
        _refused.reset(token)


def refuse_disputed(mechanism: Any, threat_model: Any) -> None:
    """Raise DisputedRun inside a block of `refusing` for a run with one of its digests.

    The run is given by models of a request. A weaker attacker is refused with the worst case beside it, because its
    answers contain both.
    """
    refused = _refused.get()
    if refused is None:
        return
    engine_version, runs = refused
    models = [threat_model]
    if not isinstance(threat_model, WorstCaseThreatModel):
        models.append(worst_case_beside([threat_model], mechanism))
    if any(run_digest(engine_version, mechanism, each) in runs for each in models):
        raise DisputedRun


@final
@dataclass(frozen=True, slots=True)
class GuardedComputation:
    """Computation `guarded` that refuses runs with the digests `runs`. Worker processes receive this value."""

    guarded: BodyProducer
    runs: Runs

    def body(self, request: Any, digest: str, engine_version: str) -> bytes:
        """Return the response body of the guarded computation. Raises DisputedRun and its other errors."""
        with refusing(engine_version, self.runs):
            return self.guarded.body(request, digest, engine_version)


def guard(computation: BodyProducer, runs: Runs) -> BodyProducer:
    """Return a computation that refuses runs with the digests `runs`, or `computation` itself without such runs."""
    return GuardedComputation(computation, runs) if runs else computation


def rests_on(body: bytes | Mapping[str, Any], runs: Runs) -> bool:
    """Return whether a stored response has a number of a run with one of the digests `runs`.

    Every mechanism in the response is combined with every threat model in it. Points of a sweep with a problem have no
    number.
    """
    found: Mapping[str, Any] = from_json(body) if isinstance(body, bytes) else body
    pairs = (
        _swept_runs(found)
        if "columns" in found
        else product(_outermost_objects_at_key(found, "mechanism"), _outermost_objects_at_key(found, "threat_model"))
    )
    return any(run_digest(found["engine_version"], *pair) in runs for pair in pairs)


def _outermost_objects_at_key(value: Any, name: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            if key == name and isinstance(each, dict):
                yield cast("dict[str, Any]", each)
            else:
                yield from _outermost_objects_at_key(each, name)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _outermost_objects_at_key(each, name)


def _swept_runs(sweep: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    # pairs (mechanism, threat model), and the same mechanism with the worst case beside the answers, if there is one
    failed = {each["point"] for each in sweep["problems"]}
    beside = None if sweep["worst_case"] is None else sweep["worst_case"]["threat_model"]
    for point in range(sweep["points"]):
        run: Any = {name: sweep[name] for name in ("mechanism", "threat_model")}
        for pointer, column in sweep["columns"].items():
            run = _with_number(run, pointer.split("/")[1:], column[point])
        if point not in failed:
            yield run["mechanism"], run["threat_model"]
            yield run["mechanism"], beside


def _with_number(value: Any, path: Sequence[str], number: float) -> Any:
    if not path:
        return number
    if isinstance(value, list):
        index, items = int(path[0]), cast("list[Any]", value)
        return [*items[:index], _with_number(items[index], path[1:], number), *items[index + 1 :]]
    held = cast("dict[str, Any]", value)
    if len(path) > 1 and path[0] not in held:  # a number of a question
        return held
    return held | {path[0]: _with_number(held.get(path[0]), path[1:], number)}
