"""Context of an assessment: facts about a run beside its mechanism, and who attests to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.base import Request, is_none, named_schema
from api_schemas.scalar_types import LARGEST_EPSILON, LARGEST_RECORDS, POSITIVE_ZERO, Delta, UnitInterval
from api_schemas.texts import Day, Name, Sha256, Uri
from api_schemas.threat_models import LARGEST_GROUP, UnknownDirection

LARGEST_ATTESTED: Final = 64
LARGEST_COUNT: Final = 10**9
ONE_RECORD_UNITS: Final = ("example",)

Count = Annotated[int, Field(ge=1, le=LARGEST_RECORDS)]


class Subject(Request):
    """Subject of the assessment: a model, a release or a data product."""

    name: Annotated[Name, Field(description="Name of the subject.", examples=["next-word model"])]
    version: Annotated[
        Name | None, Field(description="Version or release of the subject.", examples=["2.1.0"], exclude_if=is_none)
    ] = None
    uri: Annotated[
        Uri | None,
        Field(
            description="Absolute URI of the subject. The service never opens it.",
            examples=["https://models.example.org/next-word/2.1.0"],
            exclude_if=is_none,
        ),
    ] = None
    sha256: Annotated[
        Sha256 | None,
        Field(
            description="SHA-256 of the file: 64 lower-case hexadecimal digits.",
            examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
            exclude_if=is_none,
        ),
    ] = None


class Attestation(Request):
    """Statement of a person that an assumption holds or does not hold.

    The service repeats the statement without a check.
    """

    code: AssumptionCode
    holds: Annotated[
        Literal["yes", "no"],
        named_schema(
            "Attested",
            "yes or no. no: the numbers that rest on the assumption are meaningless, and the verdict is void.",
            examples=["yes"],
        ),
    ]
    by: Annotated[
        Name | None,
        Field(
            description="Person or organisation who attests the assumption.",
            examples=["ML platform"],
            exclude_if=is_none,
        ),
    ] = None
    when: Annotated[
        Day | None,
        Field(description="Day of the attestation, as YYYY-MM-DD.", examples=["2026-11-23"], exclude_if=is_none),
    ] = None


class AssessmentContext(Request):
    """Facts about a run beside its mechanism.

    The service reports each absent fact as a hazard and never assumes a value.
    """

    delta: Delta
    subject: Annotated[
        Subject | None, Field(description="Subject of the assessment. The answer repeats it.", exclude_if=is_none)
    ] = None
    date: Annotated[
        Day | None,
        Field(
            description="Day of the assessment, as YYYY-MM-DD. The service never fills in the day, so equal "
            "requests have equal answers.",
            examples=["2026-11-23"],
            exclude_if=is_none,
        ),
    ] = None
    prepared_by: Annotated[
        Name | None,
        Field(description="Author of the assessment.", examples=["Privacy engineering"], exclude_if=is_none),
    ] = None
    dataset_size: Annotated[
        Count | None,
        Field(
            validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
            description="Number of records in the data set.",
            examples=[48_000],
            exclude_if=is_none,
        ),
    ] = None
    batch_size: Annotated[
        Count | None,
        Field(
            description="Mean number of records in a batch, counted between two updates of the model.",
            examples=[480],
            exclude_if=is_none,
        ),
    ] = None
    privacy_unit: Annotated[
        Literal["example", "sequence", "document", "device", "user", "household", "organisation"],
        named_schema(
            "PrivacyUnit",
            "Unit of protection. All units except example may contain several records, see `records`.",
            examples=["user"],
        ),
    ] = "example"
    records: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_GROUP)] | None,
        Field(
            validation_alias=AliasChoices("records", "max_examples_per_unit", "max_examples_per_user"),
            description="Largest number of records of one privacy unit, enforced before training.",
            examples=[4],
            exclude_if=is_none,
        ),
    ] = None
    prior: Annotated[
        UnitInterval, Field(description="Probability, before the attack, that the record is a member.", examples=[0.5])
    ] = 0.5
    false_positive_rate: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("false_positive_rate", "fpr", "alpha"),
            description="False positive rate at which attacks are reported.",
            examples=[1e-3],
        ),
    ] = 1e-3
    baseline_success: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("baseline_success", "kappa"),
            description="Probability of reconstructing the record without the release.",
            examples=[1e-3],
        ),
    ] = 1e-3
    released: Annotated[
        Literal["all_checkpoints", "last_model"],
        named_schema(
            "Released",
            "all_checkpoints: every intermediate model is released. last_model: only the last model is "
            "released. The bounds hold for all checkpoints, and a last model alone reveals no more.",
            examples=["all_checkpoints"],
        ),
    ] = "all_checkpoints"
    dimension: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            validation_alias=AliasChoices("dimension", "num_parameters"),
            description="Number of coordinates of the released vector. Attackers who do not know the direction "
            "of a record's influence need this number.",
            examples=[10_000],
            exclude_if=is_none,
        ),
    ] = None
    unknown_direction: Annotated[
        UnknownDirection | None,
        Field(
            description="Assumption about the unknown direction in a run of several steps. Default: "
            "common_to_all_steps.",
            exclude_if=is_none,
        ),
    ] = None
    epsilon_pmp: Annotated[
        Annotated[float, Field(ge=0, le=LARGEST_EPSILON), POSITIVE_ZERO] | None,
        Field(
            validation_alias=AliasChoices("epsilon_pmp", "pmp_epsilon"),
            description="Parameter epsilon of practical membership privacy, computed by `/v1/pmp` for this "
            "release and its candidates. Without it, the assessment omits this attacker.",
            examples=[0.5],
            json_schema_extra={"x-unit": "nats"},
            exclude_if=is_none,
        ),
    ] = None
    delta_pmp: Annotated[
        Annotated[float, Field(ge=0, le=1), POSITIVE_ZERO] | None,
        Field(
            description="Parameter delta of practical membership privacy, beside `epsilon_pmp`. Default: 0.",
            examples=[0.0],
            exclude_if=is_none,
        ),
    ] = None
    microbatch_size: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            description="Number of records whose gradients are averaged before clipping.",
            examples=[1],
            exclude_if=is_none,
        ),
    ] = None
    microbatches_accounted: Annotated[
        bool | None,
        Field(
            description="Whether the noise multiplier already includes the factor 1/2 for clipped averages of "
            "microbatches. Imports from TensorFlow Privacy with `used_microbatching` set this "
            "field.",
            examples=[False],
            exclude_if=is_none,
        ),
    ] = None
    gradient_accumulation_steps: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            description="Number of backward passes between two updates of the model.", examples=[1], exclude_if=is_none
        ),
    ] = None
    tuning_runs: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_COUNT)] | None,
        Field(
            description="Number of tuning runs on the same data. The value 1 means that the settings were "
            "chosen without these data.",
            examples=[1],
            exclude_if=is_none,
        ),
    ] = None
    attested: Annotated[
        tuple[Attestation, ...],
        Field(max_length=LARGEST_ATTESTED, description="Attestations about assumptions, each with its author."),
    ] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, sentence in self._contradictions():
            raise PydanticCustomError("contradiction", "{sentence}", {"sentence": sentence, "field": name})
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        if self.dataset_size is not None:
            if self.batch_size is not None and self.batch_size > self.dataset_size:
                yield "batch_size", "Must be at most dataset_size."
            if self.records is not None and self.records > self.dataset_size:
                yield "records", "Must be at most dataset_size."
        if self.privacy_unit in ONE_RECORD_UNITS and self.records is not None and self.records > 1:
            yield "records", f"A privacy_unit `{self.privacy_unit}` is one record: name the unit that has several."
        if self.delta_pmp is not None and self.epsilon_pmp is None:
            yield "delta_pmp", "Belongs to epsilon_pmp: send both, or neither."
        codes = [each.code for each in self.attested]
        if len(set(codes)) < len(codes):
            twice = next(code for code in codes if codes.count(code) > 1)
            yield "attested", f"`{twice}` is attested twice."
