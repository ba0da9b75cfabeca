"""What a computation is: a pure function from a validated request to a response body, with a name and a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, final

from pydantic import BaseModel

from api_schemas.base import json_bytes

RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT", bound=BaseModel)

ResponseFields: TypeAlias = dict[str, Any]


def no_digits(_: BaseModel) -> None:
    """Answers in doubles."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Computation(Generic[RequestT, ResponseT]):
    """One resource. `function` and `cost` live at module level, so that a worker process can be told to run them.

    function(request, digest, engine_version): the fields of the response, in their order; it depends on nothing else.
    Raises PrivacyComputationError with the JSON pointer of the part of the request that is to blame.
    cost(request): estimated work in units of about one microsecond of CPU time; it allocates nothing.
    read_archive(body): the request in an .npz archive, where the resource takes one. Raises ArchiveError, or
    ValidationError for the parameters in it.
    digits(request): the value of its field `digits` where the answer is a ground truth, which is kept longer and also
    answers the same request with fewer digits; else None.
    """

    name: str
    request_type: type[RequestT]
    response_type: type[ResponseT]
    function: Callable[[RequestT, str, str], ResponseFields]
    cost: Callable[[RequestT], int]
    digits: Callable[[RequestT], int | None] = no_digits
    read_archive: Callable[[bytes], RequestT] | None = None

    def body(self, request: RequestT, digest: str, engine_version: str) -> bytes:
        """The response as it is sent. Raises what `function` raises."""
        return json_bytes(self.function(request, digest, engine_version))

    def response(self, request: RequestT, digest: str, engine_version: str) -> ResponseT:
        """The response as its readers see it. Raises what `function` raises."""
        return self.response_type.model_validate_json(self.body(request, digest, engine_version))
