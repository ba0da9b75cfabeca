"""DP-SGD runs assembled from their phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from api_schemas.scalar_types import LARGEST_LIST, LARGEST_STEPS
from service.importers.reading import DraftSpec, Location, PhaseNumbers, SourceValue, whole_number

TOO_MANY: Final = (
    f"May have at most {LARGEST_LIST} phases after equal neighbours are merged. Merge neighbours to one phase "
    "with their smallest noise and largest rate, which gives an upper bound."
)


class Phase(NamedTuple):
    """Consecutive equal steps of DP-SGD (Poisson samples, Gaussian noise), with values that are not validated yet.

    `key` identifies the phase in its state. Locations in the state are computed from the key only for errors, because
    histories are long.
    """

    noise_multiplier: Any
    sample_rate: Any
    steps: Any
    key: Any


def merge_phases(phases: Iterable[Phase], source: SourceValue, location: Callable[[Any, int], Location]) -> DraftSpec:
    """Return the draft of a DP-SGD run that has these phases in order, one or more.

    Equal neighbours are merged. Raise ValidationError at `source` for too many phases. Noise and rate become lists if
    they change, and the numbers of steps if several phases are left. `location(key, column)` returns the location of a
    value of a phase in the state.
    """
    merged: list[Phase] = []
    for stated in phases:
        phase = stated._replace(steps=whole_number(stated.steps))
        if merged and _can_merge(merged[-1], phase):
            merged[-1] = merged[-1]._replace(steps=merged[-1].steps + phase.steps)
        else:
            merged.append(phase)
    if len(merged) > LARGEST_LIST:
        source.reject(TOO_MANY)
    noises, rates, steps, keys = zip(*merged, strict=True)

    def column(index: int, values: tuple[Any, ...], *, may_be_one: bool) -> SourceValue | PhaseNumbers:
        if len(values) == 1 or (may_be_one and all(map(_is_number, values)) and len(set(values)) == 1):
            return SourceValue(values[0], location(keys[0], index))
        return PhaseNumbers(values, lambda entry: location(keys[entry], index))

    return DraftSpec(
        source,
        type="dpsgd",
        noise_multiplier=column(0, noises, may_be_one=True),
        sample_rate=column(1, rates, may_be_one=True),
        steps=column(2, steps, may_be_one=False),
    )


def _can_merge(first: Phase, second: Phase) -> bool:
    # phases with values that are not numbers stay apart, so that validation reports each value
    return (
        first.noise_multiplier == second.noise_multiplier
        and first.sample_rate == second.sample_rate
        and all(map(_is_number, (*first[:2], *second[:2])))
        and type(first.steps) is type(second.steps) is int
        and first.steps > 0 < second.steps
        and first.steps + second.steps <= LARGEST_STEPS
    )


def _is_number(value: object) -> bool:
    return type(value) is float or type(value) is int
