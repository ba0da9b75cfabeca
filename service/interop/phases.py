"""Runs of DP-SGD put together from their phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from api_schemas.quantities import LARGEST_LIST, LARGEST_STEPS
from service.interop.reading import Location, Node, PhaseNumbers, Spec, whole

TOO_MANY: Final = (
    f"May have at most {LARGEST_LIST} phases, after equal neighbours are merged. Send neighbours as one phase with the "
    "least noise and the largest rate of them: an upper bound."
)


class Phase(NamedTuple):
    """Steps of Poisson-sampled Gaussian noise that are alike: values of a state that nobody has looked at yet, and a
    key by which their places are found. Histories are long: no place is written down before it is asked for.
    """

    noise_multiplier: Any
    sample_rate: Any
    steps: Any
    key: Any


def run_of(phases: Iterable[Phase], source: Node, place: Callable[[Any, int], Location]) -> Spec:
    """The run of these phases, of which there is one at least: equal neighbours are one phase, and noise and rate are
    lists where they change. place(key, column): where the values of a phase stand in the state.
    """
    merged: list[Phase] = []
    for stated in phases:
        phase = stated._replace(steps=whole(stated.steps))
        if merged and _alike(merged[-1], phase):
            merged[-1] = merged[-1]._replace(steps=merged[-1].steps + phase.steps)
        else:
            merged.append(phase)
    if len(merged) > LARGEST_LIST:
        source.refuse(TOO_MANY)
    noises, rates, steps, keys = zip(*merged, strict=True)

    def column(index: int, values: tuple[Any, ...], *, may_be_one: bool) -> Node | PhaseNumbers:
        if len(values) == 1 or (may_be_one and all(map(_is_number, values)) and len(set(values)) == 1):
            return Node(values[0], place(keys[0], index))
        return PhaseNumbers(values, lambda entry: place(keys[entry], index))

    return Spec(
        source,
        type="dpsgd",
        noise_multiplier=column(0, noises, may_be_one=True),
        sample_rate=column(1, rates, may_be_one=True),
        steps=column(2, steps, may_be_one=False),
    )


def _alike(first: Phase, second: Phase) -> bool:
    """Whether both are one phase; what is no number is left for the contract to refuse."""
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
