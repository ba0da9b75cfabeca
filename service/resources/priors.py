"""Priors (probabilities of membership) of questions under the context of a request."""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.bounds import BoundsRequest, DatasetSubsampling
from api_schemas.questions import QuestionSpec

RECORDS_WERE_SAMPLED: Final = Assumption(
    code="records_were_sampled",
    text="Every record of the larger data set was kept with the stated probability, independently of all other "
    "records and of its content, before the mechanism was run. The kept records are secret.",
    holds="unknown",
)
RECORD_IS_IN_INDEPENDENTLY: Final = Assumption(
    code="record_is_in_independently",
    text="The record is in the data with the stated prior, independently of all other records. Records that are in "
    "the data only together reveal each other.",
    holds="unknown",
)


def at_bounded_prior(
    question: QuestionSpec, subsampling: DatasetSubsampling | None
) -> tuple[QuestionSpec, tuple[str, ...]]:
    """Return the question at the largest prior that the subsampling allows, with a note if it was changed.

    `subsampling` says that each record of a larger data set D is in the sample with probability T, independently. A
    posterior averaged over D is then at most its bound at the prior T, whatever the law of D (Thudi et al. 2022,
    section 4.2). A prior above T is therefore replaced by T. Without `subsampling` or prior, the question stays.
    """
    prior = None if subsampling is None else prior_of(question)
    if subsampling is None or prior is None or prior <= subsampling.rate:
        return question, ()
    note = (
        f"The prior is {subsampling.rate}, the rate of dataset_subsampling. An attacker who knows that the record "
        "is in the larger data set has this prior, and no prior is larger."
    )
    return question.model_copy(update={"prior": subsampling.rate}), (note,)


def assumptions_about_priors(request: BoundsRequest) -> tuple[Assumption, ...]:
    """Return the assumptions about how records are chosen, on which answers at a prior rest.

    Without `dataset_subsampling`, there are none if no question has a prior, or if the attacker is practical.
    """
    if request.dataset_subsampling is not None:
        capped = all(
            at_bounded_prior(question, request.dataset_subsampling)[1]
            for question in request.questions
            if prior_of(question) is not None
        )
        return (RECORDS_WERE_SAMPLED,) if capped else (RECORDS_WERE_SAMPLED, RECORD_IS_IN_INDEPENDENTLY)
    if request.threat_model.type == "practical":
        return ()
    asked = any(prior_of(question) is not None for question in request.questions)
    return (RECORD_IS_IN_INDEPENDENTLY,) if asked else ()


def prior_of(question: QuestionSpec) -> float | None:
    """Return the prior of a question, or None if the question has no prior."""
    prior: float | None = question.__dict__.get("prior")  # faster than getattr on a model
    return prior
