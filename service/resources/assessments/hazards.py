"""Hazards of a run: ways in which the run is less private, or its numbers say less, than they suggest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from api_schemas.assumptions_and_hazards import Hazard, HazardCode
from api_schemas.mechanisms import SelectedMechanism
from service.rendering.numbers import SHOWN, format_exact, percent_exact, percent_up, rounded_down, rounded_up
from service.rendering.sentences.units import cap_of, unit_name
from service.resources.abstract import ResponseFields
from service.resources.assessments.effects import HAZARDS, NO_BOUND, POSSIBLE
from service.resources.assessments.hazard_impacts import as_shuffled, changed_alone, judged_alone, tuning_advice
from service.resources.assessments.judged import (
    AssessedRun,
    RunWithHazards,
    batches_are_between_updates,
    changes,
    inconsistent_rate,
)

Status = Literal["present", "possible"]
LARGE_EPSILON: Final = 10.0
HIDDEN: Final = 1.1
"""Factor by which one point of a curve overstates the power of an attack before it counts as a hazard."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bounds of the run with the changes of its hazards, against the worst case.

    `epsilon` is the answer at the delta of the context. `power` is an upper bound of the power at the false positive
    rate of the context, and `power_of_one_point` the power that this (epsilon, delta) alone would allow, or None
    (`one_point`). `relaxed` is whether there are answers against weaker attackers.
    """

    epsilon: ResponseFields
    power: float
    power_of_one_point: float | None
    relaxed: bool


def assessed_hazards(
    known: Sequence[Hazard], run: AssessedRun, judged: RunWithHazards, numbers: Numbers
) -> list[ResponseFields]:
    """Return all hazards of an assessment as fields of `AssessedHazard`, those that are present first.

    `known` are the hazards of the described mechanism. `run` is the described run, and `judged` the run with the
    changes of its present hazards. Sentences quote `numbers`.
    """
    found = [*_of_changes(known, run, judged, numbers), *_of_the_mechanism(known, run), *_of_the_context(run, numbers)]
    return sorted(found, key=lambda each: each["status"] != "present")


def _hazard(
    code: HazardCode,
    text: str,
    status: Status,
    consequences: Sequence[ResponseFields] = (),
    *,
    failed: bool = False,
    advice: str | None = None,
) -> ResponseFields:
    """Return a hazard as fields of `AssessedHazard`, with the fixed texts for its code.

    The status "present" means that the context of the request shows the hazard. `failed` is whether no mechanism
    describes the run with this hazard, so that the run has no bound. `advice` is a sentence after the fixed remedy.
    """
    row = HAZARDS[code]
    effect, why = (row.effect, row.why) if status == "present" else ("none", POSSIBLE)
    if failed:
        effect, why = "no_bound", NO_BOUND
    return {
        "code": code,
        "title": row.title,
        "text": text,
        "status": status,
        "effect": effect,
        "effect_text": why,
        "remedy": row.remedy if advice is None else f"{row.remedy} {advice}",
        "consequences": list(consequences),
    }


def _of_changes(
    known: Sequence[Hazard], run: AssessedRun, judged: RunWithHazards, numbers: Numbers
) -> Iterator[ResponseFields]:
    texts = {each.code: each.text for each in known} | _change_texts(run)
    for change in changes(run):
        is_only = [each.code for each in judged.changes] == [change.code]
        impacts = judged_alone(change, judged.run, numbers.epsilon) if is_only else changed_alone(change, run)
        failed, advice = change.code in judged.failed, None
        if change.code == "tuning_not_accounted" and not failed and isinstance(judged.run.mechanism, SelectedMechanism):
            advice = tuning_advice(judged.run, numbers.epsilon, judged.run.mechanism.mechanism)
        yield _hazard(change.code, texts[change.code], "present", impacts, failed=failed, advice=advice)


def _change_texts(run: AssessedRun) -> dict[HazardCode, str]:
    rate, batch, passes = inconsistent_rate(run), run.context.batch_size, run.context.gradient_accumulation_steps
    return {
        "microbatches_double_sensitivity": "Clipping averages of microbatches instead of single gradients doubles "
        "the sensitivity. The effective noise_multiplier is then half of the "
        "configured value.",
        "sample_rate_inconsistent": f"The sample rate differs from {rounded_up(rate or 0.0)}, the rate of batches of "
        f"{batch} out of {min(run.sizes, default=0)} records. One of the numbers does not "
        "describe the run.",
        "gradient_accumulation_counted": "A step is one update of the model, and its batch contains the records of "
        f"all {passes} backward passes. Rates and steps that count backward passes "
        "describe another run.",
        "tuning_not_accounted": TUNING,
    }


ACCUMULATION: Final = (
    "With gradient accumulation, a step is one update of the model, and its batch contains the records of all "
    "backward passes. Rates and steps that count backward passes describe another run."
)
TUNING: Final = (
    "Settings that were chosen by comparing runs on the same data also reveal information. The numbers of one "
    "run do not include that information."
)


def _of_the_mechanism(known: Sequence[Hazard], run: AssessedRun) -> Iterator[ResponseFields]:
    context = run.context
    attested = {each.code: each.holds for each in context.attested}
    for each in known:
        match each.code:
            case "microbatches_double_sensitivity":
                if context.microbatch_size is None and not context.microbatches_accounted:
                    yield _hazard(each.code, each.text, "possible")
            case "one_record_is_protected":
                if context.records != 1 and context.privacy_unit == "example":
                    yield _hazard(each.code, each.text, "possible")
            case "poisson_sampling_assumed":
                holds = attested.get("sampling_is_poisson")
                if holds is None:
                    yield _hazard(each.code, each.text, "possible")
                elif holds == "no":
                    yield _hazard(each.code, each.text, "present", as_shuffled(run))
            case _:
                yield _hazard(each.code, each.text, "present")


def _of_the_context(run: AssessedRun, numbers: Numbers) -> Iterator[ResponseFields]:
    checks: tuple[Callable[[], ResponseFields | None], ...] = (
        lambda: _delta(run),
        lambda: _records(run),
        lambda: _accumulation(run),
        lambda: _tuning(run),
        lambda: _epsilon(numbers),
        lambda: _one_point(run, numbers),
        lambda: _relaxed(numbers),
    )
    for check in checks:
        found = check()
        if found is not None:
            yield found


def largest_delta(run: AssessedRun) -> float:
    """Return 1/(number of records), above which (epsilon, delta)-DP would allow the publication of a record.

    The largest stated number of records counts. If none is stated, it is the size of the largest stated batch, or 1.
    """
    return 1 / max(run.sizes or (1, *run.batches))


def _delta(run: AssessedRun) -> ResponseFields | None:
    delta, largest = run.context.delta, largest_delta(run)
    if delta == 0 or (run.sizes and delta < largest):
        return None
    text = (
        "A delta of 1/dataset_size or more allows a mechanism that publishes one record. With such a delta epsilon "
        "guarantees nothing."
    )
    if delta < largest:
        return _hazard("delta_not_small", f"{text} Send dataset_size.", "possible")
    at_most = "" if run.sizes else "at most "
    return _hazard("delta_not_small", f"{text} The limit here is {at_most}{rounded_down(largest, SHOWN)}.", "present")


def _records(run: AssessedRun) -> ResponseFields | None:
    if cap_of(run.context, run.threat_model) is not None:
        return None
    unit = unit_name(run.context)
    text = f"The number of records of one {unit} is not limited. The numbers protect one record, not one {unit}."
    return _hazard("records_not_capped", text, "present")


def _accumulation(run: AssessedRun) -> ResponseFields | None:
    absent = run.context.gradient_accumulation_steps is None and not batches_are_between_updates(run)
    return _hazard("gradient_accumulation_counted", ACCUMULATION, "possible") if absent and run.trains else None


def _tuning(run: AssessedRun) -> ResponseFields | None:
    absent = run.context.tuning_runs is None and not isinstance(run.mechanism, SelectedMechanism)
    return _hazard("tuning_not_accounted", TUNING, "possible") if absent and run.trains else None


def _epsilon(numbers: Numbers) -> ResponseFields | None:
    if (numbers.epsilon["lower"] or 0.0) < LARGE_EPSILON:
        return None
    text = (
        f"Epsilon is above {format_exact(LARGE_EPSILON)}, so it guarantees almost nothing in the worst case. Any "
        "protection rests on an assumption about the attacker."
    )
    return _hazard("epsilon_says_little", text, "present")


def _one_point(run: AssessedRun, numbers: Numbers) -> ResponseFields | None:
    alone = numbers.power_of_one_point
    if alone is None or alone <= HIDDEN * numbers.power:
        return None
    text = (
        f"From epsilon at delta {format_exact(run.context.delta)} alone, an attack could identify up to "
        f"{percent_up(alone)} of the members at a false positive rate of "
        f"{percent_exact(run.context.false_positive_rate)}. From the whole run, an attack identifies at most "
        f"{percent_up(numbers.power)}."
    )
    return _hazard("one_point_hides_the_curve", text, "present")


def _relaxed(numbers: Numbers) -> ResponseFields | None:
    if not numbers.relaxed:
        return None
    text = "Numbers of a relaxed attacker hold only for that attacker, and nobody can choose the attacker."
    return _hazard("relaxed_number_alone", text, "possible")
