"""Calls: requests as clients send them, with a function that reads the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, final

from pydantic import BaseModel, ValidationError

from privacy_bounds.errors import InvalidAnswer, InvalidArgument, Refused
from privacy_bounds.pictures import Origin
from privacy_bounds.runs import Notes

if TYPE_CHECKING:
    from api_schemas.base import Response
    from privacy_bounds.api import Asking

P = ParamSpec("P")
T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound="Response")
JSON: Final = "application/json"
ENVELOPE: Final = "application/vnd.dsse.envelope.v1+json"
NOT_ACCEPTABLE: Final = "/problems/not-acceptable"


@final
@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Request to a resource, and the function that turns the response body into an answer.

    `media_type` is the requested form of the answer, and `notes` say how the run was read.
    """

    path: str
    request: Mapping[str, Any]
    read: Callable[[bytes, Origin], T]
    media_type: str = JSON
    notes: Notes = ()

    def body(self) -> bytes:
        """Return the request body as JSON. Raise InvalidArgument for values that JSON cannot represent."""
        return encode(self.request)

    def name_argument(self, refusal: Refused) -> Refused:
        """Return a refusal of an unknown media type as a new error about the argument `form`.

        The refusal of the service names the header `Accept`, which the client has set from this argument. Any other
        refusal is returned unchanged.
        """
        if refusal.problem.type != NOT_ACCEPTABLE or self.media_type == JSON:
            return refusal
        from api_schemas.problems import FieldError

        detail = f"form: there is no answer as {self.media_type}. Use a media type of `supported`."
        named = {"detail": detail, "errors": (FieldError(pointer="", detail=detail),)}
        return Refused(refusal.problem.model_copy(update=named), refusal.retry_after)


def asks(build: Callable[Concatenate[Asking, P], Call[T]]) -> Callable[Concatenate[Asking, P], T]:
    """Turn a method that builds a call into a method that sends the call and returns the answer.

    The method that builds the call is the attribute `build` of the result. Asynchronous clients use it.
    """

    @wraps(build)
    def ask(self: Asking, *args: P.args, **kwargs: P.kwargs) -> T:
        call = build(self, *args, **kwargs)
        body = call.body()
        try:
            received = self.send(call.path, body, call.media_type)
        except Refused as error:
            raise call.name_argument(error) from None
        return call.read(received, Origin(self, call.path, body, call.notes))

    parameters = signature(build)
    answered = str(parameters.return_annotation).removeprefix("Call[").removesuffix("]")
    shown = cast("Any", ask)
    shown.__signature__ = parameters.replace(return_annotation=answered)
    shown.__annotations__ = {**build.__annotations__, "return": answered}
    shown.build = build
    return ask


def read_response(response_type: type[ResponseT], body: bytes) -> ResponseT:
    """Return a response body as a model of the type `response_type`. Raise InvalidAnswer for another form."""
    try:
        return response_type.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(map(str, first["loc"])) or "the whole"
        raise InvalidAnswer(
            f"The answer is not from this service, or from a version that this client cannot read: {place}: "
            f"{first['msg']}."
        ) from None


def encode(request: Mapping[str, Any]) -> bytes:
    """Encode a request as JSON. Raise InvalidArgument for values that JSON cannot represent.

    Arrays and numbers of NumPy, models of the contract and other iterables can be represented.
    """
    try:
        return json.dumps(request, default=_to_json).encode()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArgument(f"The request cannot be written as JSON: {error}.") from None


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if callable(listed := getattr(value, "tolist", None)):  # numbers and arrays of numpy, tensors
        return listed()
    return list(value)
