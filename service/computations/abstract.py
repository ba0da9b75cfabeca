"""What a resource is: a pure function from a validated request to a response body, with a name, a price and its
documentation. Its route, its command and what is published about it follow from this one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

from pydantic import BaseModel

from api_schemas.base import Response, json_bytes

RequestT = TypeVar("RequestT", bound=BaseModel)
ResponseT = TypeVar("ResponseT", bound=Response)

ResponseFields: TypeAlias = dict[str, Any]
"""The fields of a response in their order, where building it would cost as much as what it answers."""


def no_ground_truth(_: BaseModel) -> None:
    """Answers in doubles."""


def exit_ok(_: Response) -> int:
    """Return 0: whatever the answer is, a script goes on."""
    return 0


BLOCK_POINTS: Final = 128
"""Points of a request that are read together at most, from multiples of it on: a piece of a job that begins and ends
there reads none beside its own. More share no more time: their arrays leave the cache of a processor.
"""


class BodyProducer(Protocol):
    """What makes the bytes of an answer: a resource, a piece of a job, a picture, or what was planned for a quote."""

    def body(self, request: Any, digest: str, engine_version: str, /) -> bytes:
        """The response as it is sent."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Planned:
    """What answers a request from the plans of its quote, here or in a worker process: a value that can be pickled.

    `response(request, plans, digest, engine_version)` lives at module level and returns the fields of the response.
    """

    plans: Any
    response: Callable[[Any, Any, str, str], ResponseFields]

    def body(self, request: Any, digest: str, engine_version: str, /) -> bytes:
        """Return the response as it is sent. Raises what `response` raises."""
        return json_bytes(self.response(request, self.plans, digest, engine_version))


@final
@dataclass(frozen=True, slots=True)
class Quote:
    """What a request is expected to cost, known before any work is done; raises nothing and allocates nothing.

    `cost`: in units of about one microsecond of CPU time. `inline`: cheap by construction, whatever the arguments, so
    that the event loop may compute it; nothing else may. `engine`: what measured times are kept under, beside the name
    of the computation. `uncertainty`: by how many times the cost may be less, so that what is refused surely exceeds.
    `most`: about what it ends at, where its work is counted; 0 where nothing but the time limit ends it. `begun`: what
    answers the same request from the plans of this quote.
    """

    cost: int
    inline: bool = False
    engine: str = ""
    uncertainty_factor: float = 1.0
    ceiling: int = 0
    prepared: Planned | None = field(default=None, compare=False, repr=False)

    @property
    def minimum(self) -> int:
        """The least that it may cost."""
        return int(self.cost / self.uncertainty_factor)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking(Generic[RequestT]):
    """Division of a request with many points into chunks, which a job computes one by one.

    All functions live at module level. `request_type` is the request with the wider limits of jobs. `points(request)`
    returns the number of points, and `max_chunk_points(request)` the largest number of points of one computation.
    `largest_points` limits a request that is answered at once. `chunk_request(request, start, stop)` returns the points
    `start` to `stop - 1` as a request of the resource. `lines(body, start)` returns the response to that request as
    JSON lines, one object per point, with the index of the point in the job as `point`. `cells(row)` returns such an
    object as cells by column name. `quote(request)` returns the cost of all points.
    """

    request_type: type[BaseModel]
    points: Callable[[Any], int]
    largest_points: int
    max_chunk_points: Callable[[Any], int]
    chunk_request: Callable[[Any, int, int], RequestT]
    lines: Callable[[bytes, int], bytes]
    cells: Callable[[dict[str, Any]], dict[str, str]]
    quote: Callable[[Any], Quote]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Computation(Generic[RequestT, ResponseT]):
    """One resource. `function` and `quote` live at module level, so that a worker process can be told to run them.

    name: part of every digest, key of the cache, label of metrics; the operation and the command are called after it.
    path: where it is served; its first word after the version is the tag that it is documented under.
    description: what it answers, for who reads the documentation. examples: two requests or more, by their names.
    function(request, digest, engine_version): the response, or its fields in their order; it depends on nothing else.
    Raises PrivacyComputationError with the JSON pointer of the part of the request that is to blame.
    quote(request): what it costs and where it may run, itself cheap by construction. Raises PrivacyComputationError
    for what is refused by its description alone.
    read_archive(body): the request in an .npz archive, where the resource takes one. Raises ArchiveError, or
    ValidationError for the parameters in it.
    files: members of the request that the command also takes from files of their own.
    bare: the member that a file for the command may also hold alone; "" where there is none. Where it is a mechanism,
    the file may hold the state of another library as well.
    exit_code(response): of the command; 0: a script that ran it may go on.
    decision(response): what is written to the log of decisions about it, where it is one: ids and verdict, no data.
    pieces: how a job computes it, where a request may have many points.
    ends_early: whether the response may leave out parts that the time limit did not allow (`deadlines.py`).
    digits(request): the value of its field `digits` where the answer is a ground truth, which is kept longer and also
    answers the same request with fewer digits; else None.
    """

    name: str
    path: str
    description: str
    examples: Mapping[str, dict[str, Any]]
    request_type: type[RequestT]
    response_type: type[ResponseT]
    function: Callable[[RequestT, str, str], ResponseT | ResponseFields]
    quote: Callable[[RequestT], Quote]
    ground_truth_digits: Callable[[RequestT], int | None] = no_ground_truth
    read_archive: Callable[[bytes], RequestT] | None = None
    files: tuple[str, ...] = ()
    bare_member: str = ""
    exit_code: Callable[[ResponseT], int] = exit_ok
    decision: Callable[[ResponseT], dict[str, Any] | None] | None = None
    chunking: Chunking[RequestT] | None = None
    ends_early: bool = False

    @property
    def operation(self) -> str:
        """The `operationId`: what generated clients call it."""
        return self.name.replace("-", "_")

    @property
    def tag(self) -> str:
        """The room of the documentation that it stands in."""
        return self.path.split("/")[2]

    def body(self, request: RequestT, digest: str, engine_version: str) -> bytes:
        """The response as it is sent. Raises what `function` raises."""
        return json_bytes(self.function(request, digest, engine_version))

    def response(self, request: RequestT, digest: str, engine_version: str) -> ResponseT:
        """The response as its readers see it. Raises what `function` raises."""
        return self.response_type.model_validate_json(self.body(request, digest, engine_version))


VERBS: Final = {"imports": "import", "calibrations": "calibrate", "comparisons": "compare", "assessments": "assess"}
"""Commands that are called after what they do."""


def command_of(name: str) -> str:
    """What a resource is called on the command line."""
    return VERBS.get(name, name.replace("_", "-").removesuffix("-audit"))
