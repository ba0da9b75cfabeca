"""`POST /v1/bounds`: one mechanism, one threat model, up to 256 questions."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import Request, Response, Result, is_none
from api_schemas.choices import Method
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import MethodOptions, settle_options
from api_schemas.questions import LARGEST_QUESTIONS, QuestionSpec, listed_numbers
from api_schemas.scalar_types import LARGEST_LIST, UnitInterval
from api_schemas.threat_models import ThreatModelSpec, settled, usual_worst_case


class DatasetSubsampling(Request):
    """Random selection of the data before the run.

    Every record of a larger data set was kept independently with probability `rate`. No prior exceeds `rate`. Questions
    with a larger prior are answered at `rate`, and a note reports the change. This is the prior of an attacker who
    knows that the record is in the larger data set.
    """

    rate: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("rate", "T"),
            description="Probability with which each record was kept.",
            examples=[0.1],
        ),
    ]


class BoundsRequest(MethodOptions, Request):
    """A mechanism, a threat model, and the questions to answer."""

    mechanism: MechanismSpec
    # A default that is an object inside a union is beyond client generators: the document names none.
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUESTIONS,
            description="Questions, answered in this order. The service answers all questions or rejects the request.",
        ),
    ]
    dataset_subsampling: Annotated[
        DatasetSubsampling | None,
        Field(
            description="Sampling of the data from a larger data set. The sampling rate bounds the priors of "
            "the questions.",
            exclude_if=is_none,
        ),
    ] = None
    method: Method = "auto"

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        check_tree(self.mechanism)
        self._settle(threat_model=settled(self.threat_model, self.mechanism))
        if sum(map(listed_numbers, self.questions)) > LARGEST_LIST:
            raise limit_error(
                "/questions", f"The lists of all questions together may contain at most {LARGEST_LIST} numbers."
            )
        if self.dataset_subsampling is not None and not any(hasattr(question, "prior") for question in self.questions):
            raise limit_error("/dataset_subsampling", "Send dataset_subsampling only with a question that has a prior.")
        settle_options(self, (self.method,))
        return self


Answers = Annotated[
    tuple[Answer, ...], Field(description="One answer for each question, in the order of the questions.")
]


class RelaxedComparison(Response):
    """Worst-case answers by method auto, for comparison with a weaker attacker."""

    threat_model: ThreatModelSpec
    answers: Answers


class BoundsResponse(MethodOptions, Result):
    """Answers in the order of the questions, with all data for a repetition of the computation."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    dataset_subsampling: Annotated[
        DatasetSubsampling | None,
        Field(
            exclude_if=is_none,
            description="Sampling of the data, from the request. The field is absent without sampling.",
        ),
    ] = None
    method: Annotated[Method, Field(description="The requested method. Each answer names the engine that computed it.")]
    answers: Answers
    worst_case: Annotated[
        RelaxedComparison | None,
        Field(description="Worst-case answers to the same questions. null: the threat model is the worst case."),
    ]
    assumptions: Assumptions
    hazards: Hazards
