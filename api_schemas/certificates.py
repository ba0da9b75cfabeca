"""Request and response of `POST /v1/certificates`: one number, proved by the independent checker."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import Infinite, NonNegative, Request, Response, Result, is_none, named_schema
from api_schemas.bounds import BoundsRequest
from api_schemas.choices import Evidence, PointReading
from api_schemas.claims import LARGEST_CLAIM, check_claimed
from api_schemas.enclosures import Notes, Source
from api_schemas.mechanisms import MechanismSpec
from api_schemas.nested import bounds_request
from api_schemas.questions import QuestionSpec
from api_schemas.scalar_types import POSITIVE_ZERO
from api_schemas.threat_models import ThreatModelSpec, usual_worst_case


class CertificatesRequest(Request):
    """A number about a run, to be proved in ball arithmetic from the definition of its law.

    The run consists of plain, Poisson-sampled or mixture Gaussian steps. The threat model is the worst case for one
    record. Questions are epsilon, delta, advantage, reconstruction, and trade_off at one rate.
    """

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    question: Annotated[
        QuestionSpec, Field(description="Question that the number answers. A trade_off question has exactly one rate.")
    ]
    value: Annotated[
        Annotated[float, Field(ge=0, le=LARGEST_CLAIM), POSITIVE_ZERO] | Infinite | None,
        Field(
            validation_alias=AliasChoices("value", "claimed"),
            description="Number to prove. Default: the safe bound that `/v1/bounds` answers.",
            examples=[1.83],
            exclude_if=is_none,
        ),
    ] = None
    reads: PointReading = "power"

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        check_claimed(self.question, 0.0 if self.number is None else self.number, self.reads)
        self._settle(threat_model=self.asked().threat_model)
        return self

    @property
    def number(self) -> float | None:
        """Number to prove as a float, or None without one."""
        return math.inf if self.value == "Infinity" else self.value

    def asked(self) -> BoundsRequest:
        """Return the question as a request for bounds."""
        given = self.threat_model if "threat_model" in self.model_fields_set else None
        return bounds_request(self.mechanism, given, (self.question,), self.places())

    def places(self) -> dict[str, str]:
        """Return the JSON pointers of this request, by the pointers of the request for bounds that `asked` returns."""
        return {"/questions/0": "/question", "/questions": "/question"}


CertificateVerdict = Annotated[
    Literal["proved", "refuted", "not_decided"],
    named_schema(
        "CertificateVerdict",
        "proved: the number holds. refuted: the number does not hold. not_decided: the checker found no proof of "
        "either, and `reason` says why.",
        examples=["proved"],
    ),
]

_BALL = "bound of the quantity, rounded outward. null: the checker has no enclosure."


class CertificateProof(Response):
    """Proof in one direction: an enclosure of a quantity, compared with the number."""

    direction: Annotated[
        Literal["add", "remove"],
        Field(description="add: the null hypothesis is the data without the record. remove: with the record."),
    ]
    verdict: CertificateVerdict
    quantity: Annotated[
        Literal["delta", "power"],
        Field(description="Enclosed quantity: delta at an epsilon, or the largest power at a false positive rate."),
    ]
    at: Annotated[NonNegative, Field(description="Epsilon or false positive rate of the quantity.", examples=[1.83])]
    at_most: Annotated[
        NonNegative,
        Field(description="Largest value of the quantity for which the number holds.", examples=[1e-5]),
    ]
    lower: Annotated[str | None, Field(description=f"Lower {_BALL}", examples=["9.81e-6"])]
    upper: Annotated[str | None, Field(description=f"Upper {_BALL}", examples=["9.82e-6"])]
    reason: Annotated[
        str,
        Field(
            description="Why the verdict holds, or why there is none.",
            examples=["the upper bound is at most the claim"],
        ),
    ]


class CertificatesResponse(Result):
    """A number, the verdict of the checker, and the enclosures that show it."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    question: QuestionSpec
    reads: Annotated[
        PointReading | None,
        Field(exclude_if=is_none, description="Quantity of a trade_off question. Other questions omit the field."),
    ] = None
    value: Annotated[NonNegative, Field(description="Number that the certificate is about.", examples=[1.83])]
    verdict: CertificateVerdict
    evidence: Annotated[
        Evidence | None, Field(description="proved: the number holds. null: it is refuted or not decided.")
    ]
    proofs: Annotated[
        tuple[CertificateProof, ...],
        Field(description="One proof for each direction. Empty: the number holds for every mechanism."),
    ]
    answer: Annotated[
        Answer | None,
        Field(description="Answer of `/v1/bounds` whose value is certified. null: the request has the number."),
    ]
    source: Source
    notes: Notes
    assumptions: Assumptions
    hazards: Hazards
