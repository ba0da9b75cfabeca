"""Reader for Opacus: the `state_dict()` of an accountant, or the `history` in it.

The state is `{"history": [[noise_multiplier, sample_rate, num_steps], ...], "mechanism": "prv"}` (Opacus 1.6,
`opacus/accountants/accountant.py`). `IAccountant.step` appends a row whenever noise or rate change.
"""

from __future__ import annotations

from typing import Any, Final, cast

from api_schemas.assumptions_and_hazards import Hazard
from service.importers.phases import Phase, merge_phases
from service.importers.reading import ImportedRun, SourceValue

DESCRIPTION: Final = (
    "opacus (an object with history, or the history itself: rows of noise_multiplier, sample_rate and steps)"
)
ACCOUNTANTS: Final = {
    "prv": "The accountant prv: every answer here is computed from the history itself.",
    "rdp": "The accountant rdp, whose epsilon is larger than necessary: every answer here is computed from the "
    "history itself.",
    "gdp": "The accountant gdp, a limit of many steps whose epsilon may be too small: every answer here is computed "
    "from the history itself.",
    "ctd": "The accountant ctd of riskcal: every answer here is computed from the history itself.",
}
ROW: Final = 3
SAMPLER_NOT_RECORDED: Final = Hazard(
    code="sampler_not_recorded",
    text="The history does not record whether poisson_sampling was on. These answers assume Poisson sampling. "
    "Without it the epochs were shuffled, and the run is less private: send dpsgd with sampling: shuffled. "
    "Check also that sample_rate is the expected batch size divided by the size of the data set. Opacus "
    "computes the rate from the length of the data loader and the accumulated iterations.",
)


COLUMNS: Final = (
    "Must be a finite number in (0, 1]. The columns look exchanged. Send noise_multiplier, sample_rate and the "
    "number of steps in this order."
)


def _is_above_one(rate: object) -> bool:
    return type(rate) in (int, float) and cast("float", rate) > 1


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) has a history of Opacus steps, or is itself such a history."""
    return ("history" in state.as_object and state.as_object.get("mechanism") != "ctd") or isinstance(
        next(iter(state.as_list), None), list
    )


def read_state(state: SourceValue) -> ImportedRun:
    """Return the draft of the training run in a history of Opacus steps. Raise ValidationError.

    The error is also raised for an empty history and for a sampling rate above 1.
    """
    notes: tuple[str, ...] = ()
    history = state
    if not isinstance(state.value, list):
        members = state.members(("history",), ("mechanism",))
        history = members["history"]
        if "mechanism" in members:
            notes = (ACCOUNTANTS[members["mechanism"].one_of(ACCOUNTANTS)],)
    rows = history.as_list
    if not rows and not isinstance(history.value, list):
        history.reject("Must be a list of rows with noise_multiplier, sample_rate and the number of steps.")
    if not rows:
        history.reject(
            "The history is empty: no step was taken, and nothing was released. Save the state after training."
        )
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(cast("list[Any]", row)) != ROW:
            SourceValue(row, (*history.location, index)).reject(
                "Must be three numbers: noise_multiplier, sample_rate and the number of steps."
            )
        if _is_above_one(cast("list[Any]", row)[1]):
            SourceValue(None, (*history.location, index, 1)).reject(COLUMNS)
    phases = (Phase(noise, rate, steps, index) for index, (noise, rate, steps) in enumerate(rows))
    run = merge_phases(phases, history, lambda index, column: (*history.location, index, column))
    return ImportedRun(run, notes=notes, hazards=(SAMPLER_NOT_RECORDED,))
