"""Request and response of `POST /v1/claims`: published numbers, compared with certified enclosures."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.answers import Answer
from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import (
    Infinite,
    Log10,
    NonNegative,
    Probability,
    Request,
    Response,
    Result,
    field_error,
    is_none,
    named_schema,
)
from api_schemas.bounds import BoundsRequest, RelaxedComparison
from api_schemas.choices import Direction, Holds, PointReading
from api_schemas.enclosures import EnclosedProbability, Notes
from api_schemas.mechanisms import MechanismSpec
from api_schemas.nested import bounds_request
from api_schemas.questions import LARGEST_QUESTIONS, QuestionSpec, TradeOffQuestion
from api_schemas.scalar_types import DEFAULT_TOLERANCE, POSITIVE_ZERO
from api_schemas.threat_models import ThreatModelSpec, usual_worst_case

LARGEST_CLAIM: Final = 1e300
FINEST_TOLERANCE: Final = 1e-12
"""Claims are held against enclosures no narrower than this; a finer tolerance of a claim is of no help."""


class Range(NamedTuple):
    """Range of the answers to a question: numbers up to `largest`, with or without infinity, or integers only."""

    largest: float = 1.0
    infinite: bool = False
    integer: bool = False

    def sentence(self) -> str:
        """Return the range in words, to follow "must be" in an error message."""
        noun = "an integer" if self.integer else "a finite number"
        return f"{noun} in [0, {self.largest:g}]" + (' or "Infinity"' if self.infinite else "")

    def has(self, value: float) -> bool:
        """Return whether the range contains a number.

        A claim of a number outside the range is rejected as meaningless.
        """
        if value == math.inf:
            return self.infinite
        return value <= self.largest and not (self.integer and value != math.floor(value))


UNBOUNDED: Final = Range(LARGEST_CLAIM, infinite=True)
RANGES: Final[dict[str, Range]] = {
    "trade_off": Range(),
    "epsilon": UNBOUNDED,
    "delta": Range(),
    "advantage": Range(),
    "gdp_mu": UNBOUNDED,
    "reconstruction": Range(),
    "attack_accuracy": Range(),
    "positive_predictive_value": Range(),
    "negative_predictive_value": Range(),
    "advantage_over_prior": Range(2.0),
    "deletion_capacity": Range(LARGEST_CLAIM, infinite=True, integer=True),
    "unlearning_guarantee": Range(),
}
"""By the type of the question."""


def check_claimed(question: QuestionSpec, value: float, reads: PointReading) -> None:
    """Raise PydanticCustomError if `value` cannot answer `question`, or the question has several answers.

    `reads` is the quantity of a trade-off curve.
    """
    allowed = RANGES[question.type]
    if not allowed.has(value):
        raise field_error("value", f"Must be {allowed.sentence()} for {question.type}.")
    if not isinstance(question, TradeOffQuestion):
        if reads != "power":
            raise field_error("reads", "Send reads only for the question trade_off.")
    elif len(question.false_positive_rates) != 1:
        raise field_error("question", "A claim about trade_off must have exactly one false positive rate.")


class Claim(Request):
    """Claim that the answer to `question` is `value`.

    A claim about trade_off names one rate, and `reads` selects the quantity. A claim about gdp_mu is about mu over the
    requested error rates. A claim about unlearning_guarantee is about the smallest probability.
    """

    question: Annotated[
        QuestionSpec, Field(description="Question of the claim. A trade_off question has exactly one rate.")
    ]
    value: Annotated[
        Annotated[float, Field(ge=0, le=LARGEST_CLAIM), POSITIVE_ZERO] | Infinite,
        Field(
            validation_alias=AliasChoices("value", "claimed"),
            description='Claimed number. The string "Infinity" is allowed if the answer may be infinite.',
            examples=[1.83],
        ),
    ]
    reads: PointReading = "power"
    relative_tolerance: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            validation_alias=AliasChoices("relative_tolerance", "rtol"),
            description="Allowed distance of a rounded claim beyond a bound of the enclosure, relative to the bound.",
            examples=[1e-6],
        ),
        POSITIVE_ZERO,
    ] = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        check_claimed(self.question, self.number, self.reads)
        return self

    @property
    def number(self) -> float:
        """Claimed value as a float."""
        return math.inf if self.value == "Infinity" else float(self.value)


class ClaimsRequest(Request):
    """A mechanism, a threat model, and claims about them."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    claims: Annotated[
        tuple[Claim, ...],
        Field(min_length=1, max_length=LARGEST_QUESTIONS, description="Claims, checked in this order."),
    ]

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        self._settle(threat_model=self.asked().threat_model)
        return self

    def asked(self) -> BoundsRequest:
        """Return the questions of the claims as a request for bounds, with the tolerance that the claims need."""
        finest = min(claim.relative_tolerance for claim in self.claims)
        tolerance = min(max(finest, FINEST_TOLERANCE), DEFAULT_TOLERANCE)
        questions = tuple(claim.question for claim in self.claims)
        given = self.threat_model if "threat_model" in self.model_fields_set else None
        return bounds_request(self.mechanism, given, questions, self.places(), tolerance)

    def places(self) -> dict[str, str]:
        """Return the JSON pointers of this request, by the pointers of the request for bounds for the claims."""
        one_by_one = {f"/questions/{index}": f"/claims/{index}/question" for index in range(len(self.claims))}
        return {"/questions": "/claims"} | one_by_one


ClaimVerdict = Annotated[
    Literal["unsafe", "loose", "consistent", "undecided"],
    named_schema(
        "ClaimVerdict",
        "unsafe: the claim provably overstates privacy by more than the tolerance. loose: the claim is valid, "
        "but worse than the proved bound by more than the tolerance. consistent: the claim is neither unsafe "
        "nor loose. undecided: the answer is an approximation without a bound.",
        examples=["consistent"],
    ),
]


class Distance(Response):
    """Proved lower bound of the distance between a claim and the nearest bound of the enclosure."""

    end: Annotated[
        Literal["lower", "upper"],
        Field(description="lower, upper: bound of the enclosure from which the distance is measured."),
    ]
    difference: Annotated[NonNegative, Field(description="Absolute difference of the claim and the bound.")]
    ratio: Annotated[
        NonNegative | None,
        Field(
            description="Ratio of the larger to the smaller number. null: a double cannot represent the "
            "ratio, see `ratio_log10`."
        ),
    ]
    ratio_log10: Annotated[
        Log10 | None,
        Field(
            exclude_if=is_none,
            description="Decimal logarithm of the ratio. The field is present when the answer is below 1e-290.",
            examples=[1.7],
        ),
    ] = None


class ShowingAttack(Response):
    """An attack on the run with more power than the claim allows.

    null: a double cannot represent the numbers, the attack is the limit of a sequence, or the search for its rate
    exceeds the work limit of a claim. `test` gives the reason.
    """

    test: Annotated[str, Field(description="Description of the attack in one sentence.")]
    direction: Annotated[
        Direction,
        Field(
            description="Null hypothesis of the test. A claim about both directions has the direction of the attack."
        ),
    ]
    false_positive_rate: Annotated[Probability | None, Field(description="False positive rate of the test.")]
    power: Annotated[EnclosedProbability | None, Field(description="Power of the test at this rate.")]
    claimed_power: Annotated[
        Probability | None, Field(description="Largest power of any attack at this rate, if the claim were true.")
    ]


class CheckedClaim(Response):
    """A claim with its verdict, and the answer behind the verdict."""

    claimed: Annotated[NonNegative, Field(description="Claimed value.")]
    reads: Annotated[
        PointReading | None,
        Field(
            exclude_if=is_none,
            description="Claimed quantity of a trade_off question, from the claim. Other questions omit the field.",
        ),
    ] = None
    relative_tolerance: Annotated[float, Field(description="Rounding tolerance of the claim.")]
    verdict: ClaimVerdict
    holds: Annotated[
        Holds,
        Field(
            description="Whether the unrounded claim is a valid bound. unknown: the claim lies inside the "
            "enclosure, or there is no enclosure."
        ),
    ]
    by: Annotated[
        Distance | None,
        Field(description="Distance of an unsafe or loose claim from the proved bound. null: the claim is neither."),
    ]
    attack: Annotated[
        ShowingAttack | None, Field(description="Attack that refutes an unsafe claim. null: the claim is not unsafe.")
    ]
    notes: Notes
    answer: Answer


class ClaimsResponse(Result):
    """Claims with their verdicts, in the order of the request."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    claims: Annotated[tuple[CheckedClaim, ...], Field(description="One verdict for each claim, in their order.")]
    worst_case: Annotated[
        RelaxedComparison | None,
        Field(description="Worst-case answers to the same questions. null: the threat model is the worst case."),
    ]
    assumptions: Assumptions
    hazards: Hazards
