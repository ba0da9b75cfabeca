"""Resources of the service: pure functions from a validated request to a response body.

A resource is one kind of request, named by its path (`/v1/bounds`). A `Computation` holds the function with its name,
cost and documentation. The route, the command and the published documentation follow from this one value.
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
"""Fields of a response in their order. A dict avoids models, which would cost as much as the answers."""


def _no_ground_truth(_: BaseModel) -> None:
    """Return None, because requests of this resource have no ground truth (result with many proved digits)."""


def exit_ok(_: Response) -> int:
    """Return exit status 0 for every response, so that a script continues."""
    return 0


BLOCK_POINTS: Final = 128
"""Largest number of points of a request that are evaluated together. Blocks start at multiples of this number. A chunk
of a job with the same boundaries evaluates no other points. Larger blocks do not save time: their arrays leave the
cache of a processor."""


class BodyProducer(Protocol):
    """Producer of a response body from a request: a resource, a chunk of a job, a chart, or a cost estimate."""

    def body(self, request: Any, digest: str, engine_version: str, /) -> bytes:
        """Return the response body of a request as JSON bytes.

        `digest` and `engine_version` become fields of the response.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class Planned:
    """Answer to a request, to be computed from plans (engines and curves) that were made for its cost estimate.

    The value can be pickled, so that a worker process can compute the answer. `response(request, plans, digest,
    engine_version)` lives at module level and returns the fields of the response.
    """

    plans: Any
    response: Callable[[Any, Any, str, str], ResponseFields]

    def body(self, request: Any, digest: str, engine_version: str, /) -> bytes:
        """Return the response body as JSON bytes. Raises the errors of the function `response`.

        `digest` and `engine_version` become fields of the response.
        """
        return json_bytes(self.response(request, self.plans, digest, engine_version))


@final
@dataclass(frozen=True, slots=True)
class Quote:
    """Estimated cost of a request, known before its computation.

    Attributes
    ----------
    cost : int
        Expected cost in units of about one microsecond of CPU time.
    inline : bool
        Whether the event loop may compute the request: inexpensive by construction, whatever the arguments.
    engine : str
        Name of the composition engine, for which measured times are kept.
    uncertainty_factor : float
        Largest factor by which the true cost may be smaller than `cost`. A request is refused only if `cost` divided by
        this factor exceeds the limit.
    ceiling : int
        Approximate cost at which the computation stops with the bounds known so far. 0 means that only the time limit
        ends the computation.
    prepared : Planned or None
        Producer of the response to the same request, with the engines that were chosen for the estimate. None if the
        engines have to be chosen again.
    """

    cost: int
    inline: bool = False
    engine: str = ""
    uncertainty_factor: float = 1.0
    ceiling: int = 0
    prepared: Planned | None = field(default=None, compare=False, repr=False)

    @property
    def minimum(self) -> int:
        """Smallest possible cost of the request, `cost / uncertainty_factor`, in microseconds of CPU time."""
        return int(self.cost / self.uncertainty_factor)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking(Generic[RequestT]):
    """Division of a request with many points into chunks, which a job computes one by one.

    All functions live at module level, so that worker processes can import them. `request_type` is the request with the
    wider limits of jobs. `points(request)` returns the number of points, and `max_chunk_points(request)` the largest
    number of points of one computation. `largest_points` limits a request that is answered at once.
    `chunk_request(request, start, stop)` returns the points `start` to `stop - 1` as a request of the resource.
    `lines(body, start)` returns the response to that request as JSON lines, one object per point, with the index of the
    point in the job as `point`. `cells(row)` returns such an object as cells by column name. `quote(request)` returns
    the estimated cost of all points.
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
    """Resource of the service. `function` and `quote` live at module level, so that a worker process can import them.

    Attributes
    ----------
    name : str
        Part of every digest, cache key and label of metrics. The operation and the command have this name, too.
    path : str
        Route of the resource. The first word after the version is the tag of the documentation.
    description : str
        What the resource does, for readers of the documentation.
    examples : Mapping
        At least two requests, by name.
    function : callable
        `function(request, digest, engine_version)` returns the response, or its fields in order. The result depends on
        nothing else. Raises PrivacyComputationError with the JSON pointer of the faulty part of the request.
    quote : callable
        `quote(request)` returns cost and place of execution, and is itself inexpensive. Raises PrivacyComputationError
        for requests that their description alone rules out.
    ground_truth_digits : callable
        Returns the field `digits` of a request for a ground truth, else None. Such results are stored longer and also
        answer the same request with fewer digits.
    read_archive : callable or None
        `read_archive(body)` returns the request in an .npz archive. Raises ArchiveError, or ValidationError for
        parameters.
    files : tuple of str
        Members of the request that the command also accepts as separate files.
    bare_member : str
        Member that a request file of the command may hold alone; "" for none. A file for a mechanism may also hold the
        state of another library.
    exit_code : callable
        Returns the exit status of the command for a response. 0 lets a script continue.
    decision : callable or None
        Returns the entry of the decision log for a response: ids and verdict, no data.
    chunking : Chunking or None
        Division of requests with many points into chunks of a job.
    ends_early : bool
        Whether the response has what is known at three quarters of the time limit (`deadlines.py`): the points of a
        sweep, or the bounds that are proved by then.
    """

    name: str
    path: str
    description: str
    examples: Mapping[str, dict[str, Any]]
    request_type: type[RequestT]
    response_type: type[ResponseT]
    function: Callable[[RequestT, str, str], ResponseT | ResponseFields]
    quote: Callable[[RequestT], Quote]
    ground_truth_digits: Callable[[RequestT], int | None] = _no_ground_truth
    read_archive: Callable[[bytes], RequestT] | None = None
    files: tuple[str, ...] = ()
    bare_member: str = ""
    exit_code: Callable[[ResponseT], int] = exit_ok
    decision: Callable[[ResponseT], dict[str, Any] | None] | None = None
    chunking: Chunking[RequestT] | None = None
    ends_early: bool = False

    @property
    def operation(self) -> str:
        """Value of `operationId`, the method name in generated clients."""
        return self.name.replace("-", "_")

    @property
    def tag(self) -> str:
        """Tag of the resource in the documentation."""
        return self.path.split("/")[2]

    def body(self, request: RequestT, digest: str, engine_version: str) -> bytes:
        """Compute the response to `request` as JSON bytes.

        `digest` and `engine_version` become fields of the response. Raises the errors of the resource's function.
        """
        return json_bytes(self.function(request, digest, engine_version))

    def response(self, request: RequestT, digest: str, engine_version: str) -> ResponseT:
        """Compute the parsed response to `request`.

        `digest` and `engine_version` become fields of the response. Raises the errors of the resource's function.
        """
        return self.response_type.model_validate_json(self.body(request, digest, engine_version))


VERBS: Final = {
    "imports": "import",
    "calibrations": "calibrate",
    "comparisons": "compare",
    "assessments": "assess",
    "certificates": "certify",
}
"""Commands whose name is a verb."""


def command_of(name: str) -> str:
    """Return the name of the command of the command line that serves the resource `name`."""
    return VERBS.get(name, name.replace("_", "-").removesuffix("-audit"))
