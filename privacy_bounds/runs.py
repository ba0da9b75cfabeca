"""Runs as people hold them: mechanisms, short forms, and the states of other libraries."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel

from privacy_bounds.errors import InvalidArgument

Run: TypeAlias = Mapping[str, Any] | BaseModel | Sequence[Any] | object
"""Training run or release. A run is a mechanism of the contract (a model, or a dict with a `type`), a tuple
`(noise multiplier, sampling rate, steps)`, the state of another library (a dict without a `type`), an accountant of
Opacus or dp_accounting, its history, or an event of dp_accounting.
"""
Notes: TypeAlias = tuple[str, ...]
DPSGD: Final = ("noise_multiplier", "sample_rate", "steps")
"""Members of the short form of a DP-SGD run, in the order of the tuple."""
NO_RUN: Final = (
    "run: a mechanism (a dict with a `type`), (noise multiplier, sampling rate, steps), or an accountant, its state or "
    "its history; not {given}"
)
NOT_THREE_NUMBERS: Final = (
    "run: three numbers (noise multiplier, sampling rate, steps), or a list of such rows; not {given}"
)
READ_AS_DPSGD: Final = "The run was read as dpsgd (Poisson sampling): {values}."


def read_run(run: Run) -> tuple[Any, Notes]:
    """Return a run as a mechanism, and notes about assumptions that this reading makes.

    A mechanism is unchanged. The short forms `(noise multiplier, sampling rate, steps)` and `{"noise_multiplier",
    "sample_rate", "steps"}` become `dpsgd`, with a note. Everything else becomes an imported mechanism. Raise
    InvalidArgument for an object that cannot be a run, and for a tuple of other numbers.
    """
    if (short := read_short_form(run)) is not None:
        mechanism, note = short
        return mechanism, (note,)
    if run is None or isinstance(run, Real):
        raise InvalidArgument(NO_RUN.format(given=run))
    if _is_flat(run):
        raise InvalidArgument(NOT_THREE_NUMBERS.format(given=reprlib.repr(run)))
    content: object = foreign_state(run)
    if isinstance(content, BaseModel):
        return content, ()
    if isinstance(content, dict) and "type" in content:
        return cast("dict[str, Any]", content), ()
    return {"type": "imported", "content": cast("object", content)}, ()


def mechanism_of(run: Run) -> Any:
    """Return a run as a mechanism of the contract, without the notes of `read_run`."""
    return read_run(run)[0]


def read_short_form(run: Run) -> tuple[dict[str, Any], str] | None:
    """Return a short form of a DP-SGD run as a mechanism, with a note, or None for any other run.

    A short form is `(noise multiplier, sampling rate, steps)`, or an object with exactly these three members.
    """
    given = _short_form(run)
    if given is None:
        return None
    values = ", ".join(f"{name} {value}" for name, value in given.items())
    return {"type": "dpsgd", **given}, READ_AS_DPSGD.format(values=values)


def _short_form(run: Run) -> dict[str, Any] | None:
    if isinstance(run, Mapping):
        given = dict(cast("Mapping[str, Any]", run))
        return {name: given[name] for name in DPSGD} if given.keys() == set(DPSGD) else None
    if isinstance(run, list | tuple):
        row = cast("Sequence[Any]", run)
        if len(row) == len(DPSGD) and all(isinstance(each, Real) for each in row):
            return dict(zip(DPSGD, row, strict=True))
    return None


def _is_flat(run: Run) -> bool:
    # no library has such a state
    if not isinstance(run, list | tuple):
        return False
    row = cast("Sequence[Any]", run)
    return len(row) > 0 and all(isinstance(each, Real | str) for each in row)


def foreign_state(run: Run) -> Any:
    """Return the state of another library as the library serialises it.

    Equal neighbouring rows of an accountant's history are merged. Objects of unknown kinds are returned unchanged. An
    accountant of dp_accounting becomes its ledger with its neighbouring relation.
    """
    if callable(made := getattr(run, "state_dict", None)) or callable(made := getattr(run, "to_named_tuple", None)):
        run = made()
    elif callable(made := getattr(getattr(run, "ledger", None), "to_named_tuple", None)):
        relation: object = getattr(run, "neighboring_relation", None)
        run = {"event": made(), "neighboring_relation": getattr(relation, "name", relation)}
    if isinstance(run, Mapping):
        held = dict(cast("Mapping[str, Any]", run))
        return held | {"history": _merge_rows(held["history"])} if "history" in held else held
    return _merge_rows(cast("Any", run)) if isinstance(run, list | tuple) else run


def _merge_rows(history: Any) -> Any:
    # an accountant that is stepped manually may have a million equal rows
    if not isinstance(history, list | tuple):
        return history
    merged: list[Any] = []
    for row in cast("Sequence[Any]", history):
        if not isinstance(row, list | tuple) or len(cast("list[Any]", row)) != len(DPSGD):
            return cast("Any", history)
        noise, rate, steps = cast("list[Any]", row)
        if merged and merged[-1][:2] == [noise, rate]:
            merged[-1][2] += steps
        else:
            merged.append([noise, rate, steps])
    return merged
