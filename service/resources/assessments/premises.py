"""Assumptions of an assessment: their attestations, and the consequences if they do not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from api_schemas.assessment_context import AssessmentContext, Attestation
from api_schemas.assessments import AssessedAssumption
from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.mechanisms import MechanismSpec
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.selected import SCORE_IS_COVERED, TRIALS_IGNORE_DATA
from service.rendering.sentences.void import RELAXED, STILL
from service.resources.assessments.judged import RunWithHazards
from service.resources.caveats import caveats
from service.resources.parts import assumption_of, mechanism_of

_NO_BOUND: Final = "The numbers here are no bounds."
_TOO_LOW: Final = "Every number here is too low, by an unknown amount."
_OTHER_SAMPLER: Final = f"{_TOO_LOW} Describe the run with the actual `sampling`."

IF_NOT: Final[Mapping[str, str]] = {
    "batches_drawn_with_replacement": _OTHER_SAMPLER,
    "batches_of_fixed_size": _OTHER_SAMPLER,
    "bits_only": f"{_NO_BOUND} Several published variants of the technique are not private.",
    "draw_is_independent": f"{_TOO_LOW} Describe a component that was chosen by looking at the data as a mechanism of "
    "its own.",
    "epochs_are_shuffled": _OTHER_SAMPLER,
    "loss_sensitivity_bounded": _NO_BOUND,
    "means_of_clipped_gradients": f"{_NO_BOUND} Without clipping, the influence of a record is unlimited.",
    "noise_is_fresh": f"{_NO_BOUND} An attacker can subtract noise that is reused or predictable.",
    "noise_is_integer": f"{_NO_BOUND} Rounded continuous noise is post-processing of gaussian or laplace.",
    "one_noisy_release": f"{_TOO_LOW} Include every release in the mechanism.",
    "one_law_of_configurations": f"{_NO_BOUND} Take a fixed number of trials for a grid.",
    "order_is_drawn_once": STILL,
    "parameters_are_proved": _NO_BOUND,
    "parts_are_independent": f"{_TOO_LOW} Parameters that depend on earlier results need their own analysis.",
    "queries_are_independent": _TOO_LOW,
    "one_randomizer": f"{_TOO_LOW} Describe the reports as local reports, without the shuffler.",
    "order_is_secret": f"{_TOO_LOW} Describe the reports as local reports, without the shuffler.",
    "reports_are_local": f"{_TOO_LOW} Include every report in the mechanism.",
    "sampling_is_poisson": f"{_OTHER_SAMPLER} Most training code shuffles, or draws batches of a fixed size.",
    "score_is_covered": f"{_TOO_LOW} Add the mechanism of the score to the trial.",
    "scores_bounded": _NO_BOUND,
    "scores_move_little": _NO_BOUND,
    "sensitivity_is_stated": f"{_NO_BOUND} State the largest change under the relation of the threat model.",
    "sensitivity_bounded": f"{_NO_BOUND} Without clipping, the influence of a record is unlimited.",
    "shift_is_drawn": _TOO_LOW,
    "steps_rounded_up": STILL,
    "trials_ignore_data": _NO_BOUND,
}
"""Consequence by the code of the assumption. Absent codes belong to assumptions about an attacker, or about gradients
that only relaxed attackers need."""


def if_not(code: str) -> str:
    """Return a sentence with the consequence if the assumption with this code does not hold.

    An unknown code counts as an assumption about a weaker attacker, whose numbers then do not hold.
    """
    return IF_NOT.get(code, RELAXED)


def assumptions_behind(described: MechanismSpec, judged: RunWithHazards) -> tuple[Assumption, ...]:
    """Return the assumptions behind the numbers of an assessment, each once.

    The numbers are those of the run `judged` with the changes of its hazards. Its assumptions follow those of the
    mechanism `described`: the choice of the best run, for example, has assumptions of its own.
    """
    found = [each for spec in (described, judged.run.mechanism) for each in caveats(mechanism_of(spec)).assumptions]
    if any(each.code == "tuning_not_accounted" for each in judged.changes):
        found += [assumption_of(SCORE_IS_COVERED), assumption_of(TRIALS_IGNORE_DATA)]
    known: dict[str, Assumption] = {}
    for each in found:
        known.setdefault(each.code, each)
    return tuple(known.values())


def assessed(assumptions: Sequence[Assumption], context: AssessmentContext) -> tuple[AssessedAssumption, ...]:
    """Return `assumptions` with the attestations of `context`.

    An attestation sets `holds` of an assumption that the description of the run leaves "unknown".
    """
    given = {each.code: each for each in context.attested}
    return tuple(_assessed(each, given.get(each.code)) for each in assumptions)


def _assessed(assumption: Assumption, given: Attestation | None) -> AssessedAssumption:
    known = assumption.holds != "unknown"
    return AssessedAssumption(
        code=assumption.code,
        text=assumption.text,
        holds=assumption.holds if known or given is None else given.holds,
        by=None if given is None else given.by,
        when=None if given is None else given.when,
        if_not=if_not(assumption.code),
    )


def check_attested(context: AssessmentContext, assumptions: Sequence[Assumption]) -> None:
    """Raise UnsupportedCombination for an attestation that does not apply.

    An attestation does not apply if no number rests on the assumption, or if the attestation contradicts the
    description of the run.
    """
    known = {each.code: each for each in assumptions}
    for index, given in enumerate(context.attested):
        found = known.get(given.code)
        if found is None:
            reason = "no number of this assessment depends on the assumption."
        elif found.holds not in ("unknown", given.holds):
            reason = f'the request implies "{found.holds}".'
        else:
            continue
        error = UnsupportedCombination(
            "attested", f"attesting {given.code} ({given.holds})", reason, tuple(sorted(known)) or ("nothing",)
        )
        error.pointer = f"/context/attested/{index}/{'code' if found is None else 'holds'}"
        raise error
