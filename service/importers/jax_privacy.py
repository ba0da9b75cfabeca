"""Reader for JAX Privacy: the arguments of its functions that create events.

The functions are `dpsgd_event(noise_multiplier, iterations, *, sampling_prob, use_zcdp)`, `fixed_dpsgd_event(...,
dataset_size, batch_size, replace)`, `amplified_bandmf_event(..., num_bands, sampling_prob)` and the truncated variants
(jax-privacy 2.0, `jax_privacy/experimental/accounting.py`). The names of the arguments determine which function was
called.
"""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Hazard
from api_schemas.scalar_types import LARGEST_STEPS
from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = (
    "jax_privacy (an object with noise_multiplier, iterations and sampling_prob, or dataset_size and batch_size)"
)
COMMON: Final = ("noise_multiplier", "iterations")
TRUNCATED: Final = ("truncated_batch_size", "num_examples", "largest_group_size")
NO_TRUNCATION: Final = (
    "Truncated Poisson batches are not supported. Send the run without this field only if no batch was "
    "truncated. Otherwise send dpsgd with sampling: fixed_without_replacement and both sizes for batches of "
    "one size."
)
NO_ZCDP: Final = (
    "Zero-concentrated differential privacy of a sampled step is not supported. Send false if the noise was "
    "continuous Gaussian noise with this multiplier."
)
BANDED: Final = (
    "num_bands: the noise is correlated over the steps. iterations/num_bands steps of DP-SGD, rounded up, "
    "bound the run, each on Poisson samples of one group (Choquette-Choo et al. 2023, (Amplified) Banded "
    "Matrix Factorization, with strategy columns of norm 1)."
)
SAMPLER_NOT_RECORDED: Final = Hazard(
    code="sampler_not_recorded",
    text="These are the arguments of the accounting, not of the data pipeline. Check that batches were drawn in "
    "this way. Shuffled epochs are less private than Poisson samples: send dpsgd with sampling: shuffled.",
)


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) has the argument names of the JAX Privacy functions."""
    return "iterations" in state.as_object and "type" not in state.as_object


def read_state(state: SourceValue) -> ImportedRun:
    """Return the draft of the training run that arguments of JAX Privacy functions describe. Raise ValidationError.

    The error is also raised for truncated batches, and for zCDP of sampled steps.
    """
    sent = state.as_object
    for name in TRUNCATED:
        if name in sent:
            SourceValue(sent[name], (*state.location, name)).reject(NO_TRUNCATION)
    if "dataset_size" in sent or "batch_size" in sent:
        return _fixed(state)
    members = state.members((*COMMON, "sampling_prob"), ("use_zcdp", "num_bands"))
    _refuse_zcdp(members)
    steps, notes = members["iterations"].as_count, ()
    if "num_bands" in members:
        bands = members["num_bands"].integer(1, LARGEST_STEPS)
        steps = SourceValue(-(-steps.integer(1, LARGEST_STEPS) // bands), steps.location)
        notes = (BANDED,)
    run = DraftSpec(
        state,
        type="dpsgd",
        noise_multiplier=members["noise_multiplier"],
        sample_rate=members["sampling_prob"],
        steps=steps,
    )
    return ImportedRun(run, notes=notes, hazards=(SAMPLER_NOT_RECORDED,))


def _fixed(state: SourceValue) -> ImportedRun:
    members = state.members((*COMMON, "dataset_size", "batch_size"), ("replace", "use_zcdp"))
    _refuse_zcdp(members)
    replaced = "replace" in members and members["replace"].flag()
    run = DraftSpec(
        state,
        type="dpsgd",
        noise_multiplier=members["noise_multiplier"],
        sampling="fixed_with_replacement" if replaced else "fixed_without_replacement",
        batch_size=members["batch_size"].as_count,
        dataset_size=members["dataset_size"].as_count,
        steps=members["iterations"].as_count,
    )
    return ImportedRun(run, hazards=(SAMPLER_NOT_RECORDED,))


def _refuse_zcdp(members: dict[str, SourceValue]) -> None:
    if "use_zcdp" in members and members["use_zcdp"].flag():
        members["use_zcdp"].reject(NO_ZCDP)
