"""Evaluation of resources in this process, without HTTP, for the command line and for `privacy_bounds.Local`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from api_schemas.base import Result
from api_schemas.problems import Problem
from service.engine_version import ENGINE_VERSION
from service.execution.worker import compute_body
from service.importers.catalogue import validate_with_imports
from service.parsing import InvalidRequest, RequestBodyError, parse_request
from service.privacy.errors import PrivacyComputationError
from service.problems import NotAcceptable, problem_of
from service.resources.abstract import Computation
from service.resources.array_archive import ArchiveError
from service.resources.catalogue import RESOURCES, resource
from service.resources.digest import digest

if TYPE_CHECKING:
    from service.rendering.chart_catalogue import Dependency

ARCHIVE_SIGNATURE: Final = b"PK"


def resource_by_path(path: str) -> Computation[Any, Any]:
    """Return the resource with this path. Raise ValueError for an unknown path."""
    for name in RESOURCES:
        if resource(name).path == path:
            return resource(name)
    raise ValueError(f"There is no resource at {path}.")


def evaluate(computation: Computation[Any, Any], body: bytes, instance: str) -> bytes | Problem:
    """Return the JSON response of a request, or the problem. The bytes are equal to those of the service over HTTP.

    `body` is the JSON of the request, or an archive of arrays if the resource takes archives. `instance` is the URI of
    the request in a problem document.
    """
    try:
        if computation.read_archive is not None and body.startswith(ARCHIVE_SIGNATURE):
            request = computation.read_archive(body)
        else:
            request = parse_request(computation.request_type, body, validate_with_imports)
        name = digest(computation.name, ENGINE_VERSION, request)
        return compute_body(computation, request, name, ENGINE_VERSION).body
    except (RequestBodyError, ArchiveError, PrivacyComputationError, ValidationError) as error:
        known = InvalidRequest(error) if isinstance(error, ValidationError) else error
        return problem_of(known, instance=instance, request_id="")


def represent(computation: Computation[Any, Any], body: bytes, media_type: str, instance: str) -> bytes | Problem:
    """Convert a JSON response body to another media type, or return a problem.

    `instance` is the URI of the request in a problem document.

    The problem says that the resource has no such media type (JSON counts as none).
    """
    from service.rendering.registry import media_types, renderings_of

    if media_type not in renderings_of(computation.name):
        return problem_of(NotAcceptable(media_types(computation.name)), instance=instance, request_id="")
    return render(computation, body, media_type)


def render(computation: Computation[Any, Any], body: bytes, media_type: str) -> bytes:
    """Convert a JSON response body of a resource to another of its media types, and return the bytes.

    Charts are rendered in this process. Raise KeyError for a media type that the resource does not have.
    """
    from service.rendering.chart_images import ChartRequest, render_chart
    from service.rendering.registry import renderings_of

    rendering = renderings_of(computation.name)[media_type]
    response = computation.response_type.model_validate_json(body)
    results = [_compute_dependency(dependency) for dependency in rendering.dependencies(response)]
    images = [
        render_chart(ChartRequest(spec=spec, image=rendering.image)) for spec in rendering.specs(response, results)
    ]
    return rendering.write(response, results, images)


def _compute_dependency(dependency: Dependency) -> Result | None:
    computation = resource(dependency.resource)
    name = digest(computation.name, ENGINE_VERSION, dependency.request)
    try:
        found: Result = computation.response(dependency.request, name, ENGINE_VERSION)
    except PrivacyComputationError:
        return None
    return found


def draw(spec: str, media_type: str) -> bytes:
    """Return a Vega-Lite specification as an SVG or PNG image, or unchanged for any other media type."""
    from service.rendering.chart_images import ChartRequest, as_standalone_svg, render_chart
    from service.rendering.registry import PNG, SVG

    if media_type == SVG:
        return as_standalone_svg(render_chart(ChartRequest(spec=spec, image="svg")))
    return render_chart(ChartRequest(spec=spec, image="png")) if media_type == PNG else spec.encode()
