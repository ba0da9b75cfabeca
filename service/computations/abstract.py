"""What a computation is: a pure function from a validated request to a response, with a name and a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from pydantic import BaseModel

RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT", bound=BaseModel)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Computation(Generic[RequestT, ResponseT]):
    """One resource. `function` and `cost` live at module level, so that a worker process can be told to run them.

    function(request, digest, engine_version): the response; it depends on nothing else. Raises PrivacyComputationError
    with the JSON pointer of the part of the request that is to blame.
    cost(request): estimated work in units of about one microsecond of CPU time; it allocates nothing.
    """

    name: str
    request_type: type[RequestT]
    response_type: type[ResponseT]
    function: Callable[[RequestT, str, str], ResponseT]
    cost: Callable[[RequestT], int]
