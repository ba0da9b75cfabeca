"""Reader for TensorFlow Privacy: the arguments of `compute_dp_sgd_privacy_statement` or its predecessor.

The arguments of the current function are `(number_of_examples, batch_size, num_epochs, noise_multiplier, delta,
used_microbatching=True, max_examples_per_user=None)`. Those of `compute_dp_sgd_privacy` are `(n, batch_size,
noise_multiplier, epochs, delta)` (tensorflow-privacy 0.9, `privacy/analysis/compute_dp_sgd_privacy_lib.py`).
"""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Hazard
from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = "tf_privacy (an object with number_of_examples, batch_size, num_epochs and noise_multiplier)"
STATEMENT: Final = ("number_of_examples", "batch_size", "num_epochs", "noise_multiplier")
OPTIONS: Final = ("delta", "used_microbatching", "max_examples_per_user", "accountant_type")
DEPRECATED: Final = ("n", "batch_size", "epochs", "noise_multiplier")
DELTA: Final = 'delta is part of a question: {"type": "epsilon", "delta": ...}.'
ACCOUNTANT: Final = "accountant_type: every answer here is computed from the run itself."
ORDER: Final = (
    "The first epsilon of the statement, for any order of the records with one visit in each epoch. It equals "
    "the Gaussian mechanism with this noise_multiplier, repeated for every epoch."
)
HALVED: Final = (
    "used_microbatching (true by default): noise_multiplier is half of the stated value, because clipped "
    "averages of microbatches have twice the sensitivity."
)
NOT_HALVED: Final = (
    "compute_dp_sgd_privacy has no argument for microbatches. With microbatches of more than one record, "
    "noise_multiplier would be half of the stated value."
)
SAMPLER_NOT_RECORDED: Final = Hazard(
    code="sampler_not_recorded",
    text="The arguments do not state how batches were drawn. These answers assume Poisson samples, like the second "
    "epsilon of the statement. Most pipelines shuffle and are less private: send dpsgd with sampling: shuffled "
    "and the same batch_size, dataset_size and epochs.",
)


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) has the argument names of the TensorFlow Privacy functions."""
    return "number_of_examples" in state.as_object or (
        {"n", "epochs"} <= state.as_object.keys() and "type" not in state.as_object
    )


def read_state(state: SourceValue) -> ImportedRun:
    """Return the training run that arguments of TensorFlow Privacy describe, on Poisson samples.

    If the arguments state several examples of a user, the result has a threat model for all of them. Raise
    ValidationError.
    """
    deprecated = "n" in state.as_object
    if deprecated:
        members = state.members(DEPRECATED, ("delta",))
        records, epochs, notes = members["n"], members["epochs"], [NOT_HALVED]
    else:
        members = state.members(STATEMENT, OPTIONS)
        records, epochs, notes = members["number_of_examples"], members["num_epochs"], [ORDER]
    noise = members["noise_multiplier"]
    is_halved = not deprecated and ("used_microbatching" not in members or members["used_microbatching"].flag())
    if is_halved:
        noise = SourceValue(noise.number(0, 1e15) / 2, noise.location)
        notes.append(HALVED)
    notes += [sentence for name, sentence in (("delta", DELTA), ("accountant_type", ACCOUNTANT)) if name in members]
    run = DraftSpec(
        state,
        type="dpsgd",
        noise_multiplier=noise,
        batch_size=members["batch_size"],
        dataset_size=records,
        epochs=epochs,
    )
    return ImportedRun(run, _user_level_threat_model(state, members), tuple(notes), (SAMPLER_NOT_RECORDED,), is_halved)


def _user_level_threat_model(state: SourceValue, members: dict[str, SourceValue]) -> DraftSpec | None:
    most = members.get("max_examples_per_user")
    if most is None or most.value is None or (type(most.value) is int and most.value == 1):
        return None
    return DraftSpec(state, type="worst_case", records=most)
