"""Response of `GET /v1/sources`: the software and the sources of its answers, as BibTeX."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api_schemas.base import Response


class SourceEntry(Response):
    """Paper, book or software, with its BibTeX entry and the resources whose answers rest on it."""

    key: Annotated[str, Field(description="Key of the BibTeX entry.", examples=["dong2022gaussian"])]
    title: Annotated[str, Field(description="Title of the source.", examples=["Gaussian Differential Privacy"])]
    cited_as: Annotated[
        tuple[str, ...],
        Field(
            description="Names of the source in `source` of answers: families and year, separated by commas.",
            examples=[["Dong, Roth, Su 2022"]],
        ),
    ]
    bibtex: Annotated[
        str,
        Field(
            description="BibTeX entry in UTF-8, ending in a newline.",
            examples=[
                "@article{dong2022gaussian,\n  title = {{Gaussian Differential Privacy}},\n  year = {2022},\n}\n"
            ],
        ),
    ]
    used_by: Annotated[
        tuple[str, ...],
        Field(
            description="Paths of the resources whose answers rest on the source.",
            examples=[["/v1/bounds", "/v1/curves"]],
        ),
    ]


class SourcesResponse(Response):
    """The software first, then all sources of its answers."""

    sources: Annotated[tuple[SourceEntry, ...], Field(description="The software, and all sources.")]
