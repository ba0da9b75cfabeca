"""`GET /v1/decisions/{id}`: the decision of an assessment, without the rest of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api_schemas.assessment_context import Subject
from api_schemas.base import Response, is_none
from api_schemas.policies import Decision


class StoredDecision(Response):
    """A decision as it was stored, with what it is about."""

    decision: Decision
    subject: Annotated[
        Subject | None, Field(description="What was assessed, as the request said it.", exclude_if=is_none)
    ] = None
    date: Annotated[
        str | None,
        Field(
            description="Day of the assessment, as the request said it.", examples=["2026-11-23"], exclude_if=is_none
        ),
    ] = None
    result: Annotated[
        str,
        Field(
            pattern="^sha256:[0-9a-f]{64}$",
            description="Digest of the assessment; GET /v1/results/{digest} returns the whole of it.",
        ),
    ]
    engine_version: Annotated[
        str, Field(description="Version of the numbers that the decision rests on.", examples=["2026.11.22"])
    ]
