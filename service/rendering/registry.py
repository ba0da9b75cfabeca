"""Registry of the media types of all resources: texts, tables, charts and reports.

The HTTP API, the command line and `privacy_bounds.Local` use this registry. A rendering takes four steps, so that each
step runs in the right process: request further answers of the same run (`dependencies`), build chart specifications
(`specs`), render these as images (`image`), and assemble the body (`write`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, final

from service.rendering.chart_catalogue import (
    CHART_SOURCES,
    ChartSource,
    Dependency,
    DependencyResults,
    build_spec,
    shown_digests,
)
from service.rendering.chart_images import Image, as_standalone_svg
from service.rendering.charts.style import VEGA_LITE, Spec, finalize_spec
from service.rendering.documents import DOCUMENT_WRITERS
from service.rendering.documents.escaping import file_name
from service.rendering.tables.comparisons import COMPARISON_WRITERS
from service.rendering.tables.curves import CURVE_WRITERS
from service.rendering.tables.sweeps import SWEEP_WRITERS

JSON, HTML, SVG, PNG = "application/json", "text/html", "image/svg+xml", "image/png"
TEXT_WRITERS: Final[Mapping[str, Mapping[str, Callable[[Any], str]]]] = {
    "assessments": DOCUMENT_WRITERS,
    "comparisons": COMPARISON_WRITERS,
    "curves": CURVE_WRITERS,
    "sweeps": SWEEP_WRITERS,
}
"""Functions that write a response as text, by the name of the resource and the media type."""
LOAD_NOTHING_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _empty_list(*_: Any) -> list[Any]:
    return []


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Representation of the responses of a resource in one media type.

    `dependencies(response)` returns the further requests whose answers the representation shows. `specs(response,
    results)` returns the charts to draw as `image`, as JSON texts. `write(response, results, images)` returns the body.
    `headers` are sent beside the media type. `file_name(answer)` returns the name of a saved file for an answer in
    JSON; None leaves the name to the client.
    """

    media_type: str
    write: Callable[[Any, DependencyResults, Sequence[bytes]], bytes]
    dependencies: Callable[[Any], list[Dependency]] = _empty_list
    specs: Callable[[Any, DependencyResults], list[str]] = _empty_list
    image: Image = "svg"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    file_name: Callable[[bytes], str] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the body of the representation is text."""
        return self.media_type != PNG

    @property
    def has_images(self) -> bool:
        """Whether the body of the representation contains rendered charts."""
        return self.specs is not _empty_list

    @property
    def is_expensive(self) -> bool:
        """Whether the rendering needs answers to other requests, or images, and is therefore cached."""
        return self.has_images or self.dependencies is not _empty_list

    @property
    def content_type(self) -> str:
        """Value of the `Content-Type` header of the representation."""
        return f"{self.media_type}; charset=utf-8" if self.is_text else self.media_type


@cache
def renderings_of(name: str) -> Mapping[str, Rendering]:
    """Return the renderings of the resource `name` by media type, without JSON.

    The mapping is empty for a resource that answers in JSON only, and for an unknown name.
    """
    found = [_text_rendering(media_type, write) for media_type, write in TEXT_WRITERS.get(name, {}).items()]
    if name in CHART_SOURCES:
        found += _chart_renderings(CHART_SOURCES[name])
    if name == "assessments":
        found.append(_report_rendering(CHART_SOURCES[name]))
    return {rendering.media_type: rendering for rendering in found}


def media_types(name: str) -> tuple[str, ...]:
    """Return the media types in which the resource `name` answers, JSON first."""
    return (JSON, *renderings_of(name))


def _text_rendering(media_type: str, write_text: Callable[[Any], str]) -> Rendering:
    def write(response: Any, _: DependencyResults, __: Sequence[bytes]) -> bytes:
        return write_text(response).encode()

    return Rendering(media_type=media_type, write=write)


def _chart_renderings(source: ChartSource) -> list[Rendering]:
    def specs(response: Any, results: DependencyResults) -> list[str]:
        return [json.dumps(build_spec(source, response, results))]

    def spec(response: Any, results: DependencyResults, _: Sequence[bytes]) -> bytes:
        return specs(response, results)[0].encode()

    def svg(_: Any, __: DependencyResults, images: Sequence[bytes]) -> bytes:
        return as_standalone_svg(images[0])

    def png(_: Any, __: DependencyResults, images: Sequence[bytes]) -> bytes:
        return images[0]

    closed = {"Content-Security-Policy": f"{LOAD_NOTHING_POLICY}; style-src 'unsafe-inline'"}
    return [
        Rendering(media_type=VEGA_LITE, dependencies=source.dependencies, write=spec),
        Rendering(media_type=SVG, dependencies=source.dependencies, specs=specs, write=svg, headers=closed),
        Rendering(media_type=PNG, dependencies=source.dependencies, specs=specs, image="png", write=png),
    ]


def _report_rendering(source: ChartSource) -> Rendering:
    from service.rendering.report.html import content_security_policy, render_report

    def dependencies(response: Any) -> list[Dependency]:
        return source.dependencies(response) if response.summary.bounded else []

    def charts(response: Any, results: DependencyResults) -> Sequence[Spec]:
        return source.charts(response, results) if response.summary.bounded else []

    def specs(response: Any, results: DependencyResults) -> list[str]:
        shown = shown_digests(response, results)
        return [json.dumps(finalize_spec(chart, shown)) for chart in charts(response, results)]

    def write(response: Any, results: DependencyResults, images: Sequence[bytes]) -> bytes:
        return render_report(response, charts(response, results), images, shown_digests(response, results))

    headers = {"Content-Security-Policy": content_security_policy()}
    return Rendering(
        media_type=HTML, dependencies=dependencies, specs=specs, write=write, headers=headers, file_name=_report_name
    )


def _report_name(written: bytes) -> str:
    subject: dict[str, str] = json.loads(written)["context"].get("subject", {})
    parts = (file_name(subject.get(name, "")) for name in ("name", "version"))
    return "-".join(("privacy-report", *filter(None, parts))) + ".html"
