"""What a context of the request says about the priors of its questions."""

from __future__ import annotations

from typing import Final

from api_schemas.bounds import Assumption, DatasetSubsampling
from api_schemas.questions import QuestionSpec

RECORDS_WERE_SAMPLED: Final = Assumption(
    text="Every record of the larger data set was kept with the stated probability, independently of all others and of "
    "what it says, before the mechanism was run; which were kept is secret.",
    holds="unknown",
)


def at_bounded_prior(
    question: QuestionSpec, subsampling: DatasetSubsampling | None
) -> tuple[QuestionSpec, tuple[str, ...]]:
    """The question as it is read, and a note where its prior is not the one that was sent.

    Given the larger data set D, a record of D is in the sample with probability T, independently of all others, and any
    other record with probability 0. So a posterior averaged over D is at most its bound at a prior of T, whatever the
    law of D (Thudi et al. 2022, section 4.2).
    """
    prior = getattr(question, "prior", None)
    if subsampling is None or prior is None or prior <= subsampling.rate:
        return question, ()
    note = (
        f"Read at a prior of {subsampling.rate!r}, the rate of dataset_subsampling: that of an attacker who knows that "
        "the record is in the larger data set. Nobody's is larger."
    )
    return question.model_copy(update={"prior": subsampling.rate}), (note,)
