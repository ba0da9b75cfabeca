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
    """Before the mechanism was run, every record of a larger data set was kept with probability `rate`, independently.

    Nobody's prior exceeds `rate`, whatever is known about the larger data set: questions with a larger prior are read
    at `rate`, the prior of an attacker who knows that the record is in the larger data set, and say so in their notes.
    """

    rate: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("rate", "T"),
            description="Probability T with which each record was kept.",
            examples=[0.1],
        ),
    ]


class BoundsRequest(MethodOptions, Request):
    """A mechanism, who attacks it, and what to find out."""

    mechanism: MechanismSpec
    # A default that is an object inside a union is beyond client generators: the document names none.
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUESTIONS,
            description="Answered in this order. A request is answered as a whole or not at all.",
        ),
    ]
    dataset_subsampling: Annotated[
        DatasetSubsampling | None,
        Field(
            description="How the data were drawn from a larger data set; bounds the priors of questions.",
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
                "/questions", f"The lists of all questions together may hold at most {LARGEST_LIST} numbers."
            )
        if self.dataset_subsampling is not None and not any(hasattr(question, "prior") for question in self.questions):
            raise limit_error("/dataset_subsampling", "No question has a prior that it could bound.")
        settle_options(self, (self.method,))
        return self


Answers = Annotated[tuple[Answer, ...], Field(description="One for each question, in their order.")]


class RelaxedComparison(Response):
    """The worst-case answers beside those of a relaxed threat model, by the method auto."""

    threat_model: ThreatModelSpec
    answers: Answers


class BoundsResponse(MethodOptions, Result):
    """The answers, in the order of the questions, with everything needed to check and repeat them."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    dataset_subsampling: Annotated[
        DatasetSubsampling | None, Field(exclude_if=is_none, description="As in the request; absent where it was.")
    ] = None
    method: Annotated[Method, Field(description="The method that was asked for; each answer names the engine used.")]
    answers: Answers
    worst_case: Annotated[RelaxedComparison | None, Field(description="null when the threat model is the worst case.")]
    assumptions: Assumptions
    hazards: Hazards
