"""`GET /v1/decisions/{id}`: the decision of an assessment, without its other fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api_schemas.assessment_context import Subject
from api_schemas.base import EXAMPLE_DIGEST, Response, is_none
from api_schemas.policies import Decision


class StoredDecision(Response):
    """A stored decision with the subject of the assessment."""

    decision: Decision
    subject: Annotated[
        Subject | None, Field(description="Subject of the assessment, from the request.", exclude_if=is_none)
    ] = None
    date: Annotated[
        str | None,
        Field(description="Day of the assessment, from the request.", examples=["2026-11-23"], exclude_if=is_none),
    ] = None
    result: Annotated[
        str,
        Field(
            pattern="^sha256:[0-9a-f]{64}$",
            description="Digest of the assessment. `GET /v1/results/{digest}` returns the whole assessment.",
            examples=[EXAMPLE_DIGEST],
        ),
    ]
    engine_version: Annotated[
        str, Field(description="Version of the numerical engine behind the decision.", examples=["2026.11.22"])
    ]
