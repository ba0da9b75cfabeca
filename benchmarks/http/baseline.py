"""Baseline server: a FastAPI async handler that validates the same body and returns a constant.

`python -m benchmarks.http.baseline PORT SIZE` returns SIZE bytes. It has no middleware and no log.
"""

from __future__ import annotations

import sys
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Response
from pydantic import Field

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import LARGEST_QUESTIONS, QuestionSpec


class ListedRequest(BoundsRequest):
    """Body of a request for bounds with a list in place of the tuple of questions.

    FastAPI validates decoded JSON, and a strict tuple rejects a list.
    """

    questions: Annotated[list[QuestionSpec], Field(min_length=1, max_length=LARGEST_QUESTIONS)]  # type: ignore[assignment]


def create_app(size: int) -> FastAPI:
    app = FastAPI()
    constant = b"0" * size

    @app.post("/v1/bounds")
    async def bounds(request: ListedRequest) -> Response:  # noqa: ARG001 - validated is all that it is
        return Response(constant, media_type="application/json")

    @app.get("/livez")
    async def livez() -> Response:
        return Response(b"")

    return app


if __name__ == "__main__":
    uvicorn.run(
        create_app(int(sys.argv[2])),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=False,
        log_config=None,
        server_header=False,
    )
