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
    """Range of possible answers to a question: numbers up to `largest`, with or without infinity, or integers only."""

    largest: float = 1.0
    infinite: bool = False
    integer: bool = False

    def sentence(self) -> str:
        """Return the range in words, to follow 'must be'."""
        noun = "an integer" if self.integer else "a finite number"
        return f"{noun} in [0, {self.largest:g}]" + (' or "Infinity"' if self.infinite else "")

    def has(self, value: float) -> bool:
        """Whether the range contains a number. A claim of a number outside the range is rejected as meaningless."""
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


class Claim(Request):
    """Statement that the answer to `question` is `value`, of trade_off the number that `reads` names at one rate.

    Of gdp_mu the claim is about mu over the range, of unlearning_guarantee about the smallest probability.
    """

    question: Annotated[QuestionSpec, Field(description="What the claim is about; trade_off: at one rate.")]
    value: Annotated[
        Annotated[float, Field(ge=0, le=LARGEST_CLAIM), POSITIVE_ZERO] | Infinite,
        Field(
            validation_alias=AliasChoices("value", "claimed"),
            description='The number that is claimed; the string "Infinity" where the answer may be infinite.',
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
            description="How far a claim may be beyond an end of the enclosure, relative to that end, and still pass "
            "for rounded.",
            examples=[1e-6],
        ),
        POSITIVE_ZERO,
    ] = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        allowed = RANGES[self.question.type]
        if not allowed.has(self.number):
            raise field_error("value", f"Must be {allowed.sentence()} for {self.question.type}.")
        if not isinstance(self.question, TradeOffQuestion):
            if self.reads != "power":
                raise field_error("reads", "Only for the question trade_off.")
        elif len(self.question.false_positive_rates) != 1:
            raise field_error("question", "A claim about trade_off is about one false positive rate.")
        return self

    @property
    def number(self) -> float:
        """Claimed value as a float."""
        return math.inf if self.value == "Infinity" else float(self.value)


class ClaimsRequest(Request):
    """A mechanism, who attacks it, and what is claimed about it."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    claims: Annotated[
        tuple[Claim, ...],
        Field(min_length=1, max_length=LARGEST_QUESTIONS, description="Checked in this order."),
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
        """Return the pointers of this request that correspond to pointers of the request for bounds."""
        one_by_one = {f"/questions/{index}": f"/claims/{index}/question" for index in range(len(self.claims))}
        return {"/questions": "/claims"} | one_by_one


ClaimVerdict = Annotated[
    Literal["unsafe", "loose", "consistent", "undecided"],
    named_schema(
        "ClaimVerdict",
        "unsafe: provably more privacy is claimed than there is, by more than the tolerance; loose: valid, and by more "
        "than the tolerance worse than what can be proved; consistent: neither is so; undecided: the answer is an "
        "approximation, which decides nothing.",
        examples=["consistent"],
    ),
]


class Distance(Response):
    """How far a claim is, at least, from what is proved."""

    end: Annotated[Literal["lower", "upper"], Field(description="The end of the enclosure that it is measured from.")]
    difference: Annotated[NonNegative, Field(description="Of the larger and the smaller of the two.")]
    ratio: Annotated[
        NonNegative | None,
        Field(description="Of the larger to the smaller of the two; null where no double holds it: see ratio_log10."),
    ]
    ratio_log10: Annotated[
        Log10 | None,
        Field(exclude_if=is_none, description="Its decimal logarithm; there where the answer is below 1e-290."),
    ] = None


class ShowingAttack(Response):
    """An attack that does better than the claim allows.

    The numbers are null where none of them can be written as a double, or where the attack is a limit.
    """

    test: Annotated[str, Field(description="Which attack it is, and what it does, in a sentence.")]
    direction: Annotated[
        Direction, Field(description="The null hypothesis of the test; of a claim about both, the one that shows it.")
    ]
    false_positive_rate: Annotated[Probability | None, Field(description="Where the test is run.")]
    power: Annotated[EnclosedProbability | None, Field(description="Of the test at this rate.")]
    claimed_power: Annotated[
        Probability | None, Field(description="No attack would have a larger power at this rate, were the claim true.")
    ]


class CheckedClaim(Response):
    """A claim with its verdict, and the answer that it was held against."""

    claimed: Annotated[NonNegative, Field(description="The value of the claim.")]
    reads: Annotated[
        PointReading | None, Field(exclude_if=is_none, description="As in the claim; only for trade_off.")
    ] = None
    relative_tolerance: Annotated[float, Field(description="As in the claim.")]
    verdict: ClaimVerdict
    holds: Annotated[
        Holds,
        Field(
            description="Whether the claim, as it stands, is a valid promise: yes, no, or unknown because it lies "
            "inside the enclosure or there is none. Rounding counts here."
        ),
    ]
    by: Annotated[Distance | None, Field(description="How unsafe, or how loose; null otherwise.")]
    attack: Annotated[ShowingAttack | None, Field(description="What shows it, of an unsafe claim; null otherwise.")]
    notes: Notes
    answer: Answer


class ClaimsResponse(Result):
    """The claims with their verdicts, in their order."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    claims: Annotated[tuple[CheckedClaim, ...], Field(description="One for each claim, in their order.")]
    worst_case: Annotated[
        RelaxedComparison | None,
        Field(description="Answers to the same questions; null when the threat model is the worst case."),
    ]
    assumptions: Assumptions
    hazards: Hazards
