"""Reader for riskcal: the arguments that its functions for DP-SGD share, or the `state_dict()` of its accountant.

The functions are `get_beta_for_dpsgd(noise_multiplier, sample_rate, num_steps, alpha, grid_step)` and its siblings
(riskcal 1.5, `riskcal/calibration/dpsgd.py`). `CTDAccountant` has the history format of Opacus.
"""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Hazard
from service.importers import opacus
from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = "riskcal (an object with noise_multiplier, sample_rate and num_steps)"
REQUIRED: Final = ("noise_multiplier", "sample_rate", "num_steps")
DROPPED: Final = {
    "grid_step": "grid_step: the discretisation of riskcal is not needed, because answers here have an enclosure.",
    "alpha": 'alpha is part of a question: {"type": "trade_off", "false_positive_rates": [...]}.',
    "beta": 'beta is a target: POST /v1/calibrations, or compare it with the answer to {"type": "trade_off"}.',
    "advantage": 'advantage is a target: POST /v1/calibrations, or compare it with that of {"type": "advantage"}.',
    "delta": 'delta is part of a question: {"type": "epsilon", "delta": ...}.',
    "epsilon": 'epsilon is part of a question: {"type": "delta", "epsilon": ...}.',
}
SAMPLER_NOT_RECORDED: Final = Hazard(
    code="sampler_not_recorded",
    text="riskcal assumes Poisson samples. Check that every record entered every batch independently. Otherwise the "
    "run is less private: send dpsgd with the actual sampling.",
)


def matches(state: SourceValue) -> bool:
    """Return whether a state has the argument names of riskcal, or is the state of its accountant."""
    sent = state.as_object
    return ("num_steps" in sent and "sample_rate" in sent) or ("history" in sent and sent.get("mechanism") == "ctd")


def read_state(state: SourceValue) -> ImportedRun:
    """Return the draft of the training run that arguments or a history of riskcal describe. Raise ValidationError."""
    if "history" in state.as_object:
        return opacus.read_state(state)
    members = state.members(REQUIRED, tuple(DROPPED))
    noise, rate, steps = (members[name] for name in REQUIRED)
    run = DraftSpec(state, type="dpsgd", noise_multiplier=noise, sample_rate=rate, steps=steps.as_count)
    notes = tuple(sentence for name, sentence in DROPPED.items() if name in members)
    return ImportedRun(run, notes=notes, hazards=(SAMPLER_NOT_RECORDED,))
