"""Ways in which a run is less private, or its numbers say less, than it looks: which are there, and what of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from api_schemas.assessments import AssessmentContext
from api_schemas.caveats import Hazard
from api_schemas.mechanisms import DpsgdMechanism, NoisySgdMechanism, PoissonSampledMechanism, nodes_of
from service.computations.abstract import ResponseFields
from service.computations.assessments.consequences import (
    Run,
    as_shuffled,
    at_consistent_rate,
    of_all_tuning_runs,
    with_microbatches,
)
from service.interop.numbers import as_given
from service.interop.reports.units import cap_of

Status = Literal["present", "possible"]
LARGE_EPSILON: Final = 10.0
HIDDEN: Final = 1.1
"""By how much one point of a curve has to overstate the power of an attack to be a hazard."""
RATE_AGREEMENT: Final = 0.01
"""Relative: rates are written with few digits."""
REMEDIES: Final[Mapping[str, str]] = {
    "fixed_batches_are_not_poisson": "Quote these numbers, not those of Poisson sampling.",
    "columns_may_be_exchanged": "Exchange noise_multiplier and sample_rate if so; else take more noise.",
    "large_sample_rate": "Smaller batches, or accept that sampling hides little.",
    "microbatches_double_sensitivity": "Send microbatch_size: 1 if every gradient is clipped on its own.",
    "one_record_is_protected": "Send privacy_unit and records where somebody may have several records.",
    "poisson_sampling_assumed": "Attest sampling_is_poisson, or describe the run with the `sampling` that was used.",
    "shuffled_epochs_are_not_poisson": "Quote these numbers, not those of Poisson sampling.",
    "stated_parameters_alone": "Describe the run itself.",
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known of a run when its hazards are looked for: ends of answers against the worst case."""

    smallest_epsilon: float
    power: float
    power_of_one_point: float | None
    relaxed: bool


def assessed_hazards(known: Sequence[Hazard], run: Run, numbers: Numbers) -> list[ResponseFields]:
    """Present ones first. `known`: those of the mechanism as it is described."""
    found = [*_of_the_mechanism(known, run), *_of_the_context(run, numbers)]
    return sorted(found, key=lambda each: each["status"] != "present")


def _hazard(
    code: str, text: str, status: Status, remedy: str, consequences: Sequence[ResponseFields] = ()
) -> ResponseFields:
    return {"code": code, "text": text, "status": status, "remedy": remedy, "consequences": list(consequences)}


def _of_the_mechanism(known: Sequence[Hazard], run: Run) -> Iterator[ResponseFields]:
    """What is said about every such run, as far as the context says that it is so, or not."""
    context = run.context
    attested = {each.code: each.holds for each in context.attested}
    for hazard in known:
        status: Status = "present"
        consequences: list[ResponseFields] = []
        match hazard.code:
            case "microbatches_double_sensitivity":
                if context.microbatch_size == 1:
                    continue
                status = "possible" if context.microbatch_size is None else "present"
                if status == "present":
                    consequences = with_microbatches(run)
            case "one_record_is_protected":
                if context.records == 1 or context.privacy_unit != "example":
                    continue  # it is so, or said of the unit below
                status = "possible"
            case "poisson_sampling_assumed":
                said = attested.get("sampling_is_poisson")
                if said == "yes":
                    continue
                status = "possible" if said is None else "present"
                if status == "present":
                    consequences = as_shuffled(run)
            case _:
                pass
        yield _hazard(hazard.code, hazard.text, status, REMEDIES[hazard.code], consequences)


def _of_the_context(run: Run, numbers: Numbers) -> Iterator[ResponseFields]:
    mechanism, context = run.mechanism, run.context
    trains = any(
        isinstance(node, DpsgdMechanism | NoisySgdMechanism | PoissonSampledMechanism) for node in nodes_of(mechanism)
    )
    checks: tuple[Callable[[], ResponseFields | None], ...] = (
        lambda: _delta(context),
        lambda: _records(run),
        lambda: _rate(run),
        lambda: _accumulation(context) if trains else None,
        lambda: _tuning(run) if trains else None,
        lambda: _epsilon(numbers),
        lambda: _one_point(context, numbers),
        lambda: _relaxed(numbers),
    )
    for check in checks:
        found = check()
        if found is not None:
            yield found


def _delta(context: AssessmentContext) -> ResponseFields | None:
    size = context.dataset_size
    if context.delta == 0 or (size is not None and context.delta * size < 1):
        return None
    text = (
        "A delta of 1/dataset_size or more allows a mechanism that publishes one record: with such a delta no epsilon "
        "says anything."
    )
    remedy = "Send dataset_size." if size is None else f"Ask for epsilon at a delta well below {1 / size:.3g}."
    return _hazard("delta_not_small", text, "possible" if size is None else "present", remedy)


def _records(run: Run) -> ResponseFields | None:
    context = run.context
    if cap_of(context, run.threat_model) is not None:
        return None
    unit = context.privacy_unit
    text = f"Nothing says how many records one {unit} has at most: the numbers protect one record, not one {unit}."
    return _hazard("records_not_capped", text, "present", "Cap them before training, and send the cap as `records`.")


def _rate(run: Run) -> ResponseFields | None:
    mechanism, context = run.mechanism, run.context
    batch, size = context.batch_size, context.dataset_size
    if not isinstance(mechanism, DpsgdMechanism) or batch is None or size is None:
        return None
    rate = mechanism.sample_rate
    known = batch / size
    if not isinstance(rate, float) or abs(rate - known) <= RATE_AGREEMENT * known:
        return None
    text = (
        f"The sample rate {rate:.6g} is not that of batches of {batch} out of {size} records, {known:.6g}: one of them "
        "is not what was run."
    )
    remedy = "Describe the run with batch_size and dataset_size in place of sample_rate."
    return _hazard("sample_rate_inconsistent", text, "present", remedy, at_consistent_rate(run, known))


def _accumulation(context: AssessmentContext) -> ResponseFields | None:
    passes = context.gradient_accumulation_steps
    if passes == 1:
        return None
    text = (
        "With gradient accumulation a step is an update of the model, with the records of all backward passes before "
        "it for its batch: rates and steps that are counted by backward passes describe another run."
    )
    remedy = "Send gradient_accumulation_steps." if passes is None else f"See that a batch is that of {passes} passes."
    return _hazard("gradient_accumulation_counted", text, "possible" if passes is None else "present", remedy)


def _tuning(run: Run) -> ResponseFields | None:
    runs = run.context.tuning_runs
    if runs == 1:
        return None
    text = (
        "Settings that were chosen by looking at other runs on the same data reveal something as well, and are not "
        "part of the numbers."
    )
    if runs is None:
        return _hazard("tuning_not_accounted", text, "possible", "Send tuning_runs; 1: chosen without these data.")
    remedy = "Count all runs (the numbers beside), or tune on other data."
    return _hazard("tuning_not_accounted", text, "present", remedy, of_all_tuning_runs(run, runs))


def _epsilon(numbers: Numbers) -> ResponseFields | None:
    if numbers.smallest_epsilon < LARGE_EPSILON:
        return None
    text = (
        f"Epsilon is above {LARGE_EPSILON:g}: against the worst case the guarantee says next to nothing, and whatever "
        "protects the data is an assumption about the attacker."
    )
    return _hazard("epsilon_says_little", text, "present", "More noise; calibrate to the risk that is acceptable.")


def _one_point(context: AssessmentContext, numbers: Numbers) -> ResponseFields | None:
    alone = numbers.power_of_one_point
    if alone is None or alone <= HIDDEN * numbers.power:
        return None
    text = (
        f"Epsilon at one delta suggests attacks that do not exist: at a false positive rate of "
        f"{as_given(context.false_positive_rate)} it allows a power of {alone:.3g}, the run itself {numbers.power:.3g}."
    )
    return _hazard("one_point_hides_the_curve", text, "present", "Quote mu or the power beside epsilon.")


def _relaxed(numbers: Numbers) -> ResponseFields | None:
    if not numbers.relaxed:
        return None
    text = "Numbers of a relaxed attacker hold only against that attacker, whom nobody can choose."
    return _hazard(
        "relaxed_number_alone", text, "possible", "Quote them beside the worst case, with their assumptions."
    )
