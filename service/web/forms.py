"""The forms in which an answer can be had beside JSON: texts, tables, pictures, reports.

A form is made in four steps, so that each can be done where it belongs: further answers are asked for (`needs`), specs
are made of all answers (`specs`), these are drawn (`image`), and the whole is written (`write`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, final

from service.computations.abstract import Computation
from service.computations.catalogue import resource
from service.interop.reports.escaping import file_name
from service.web.charts.style import VEGA_LITE, Spec, whole
from service.web.drawing import Image, standing_alone
from service.web.pictures import PICTURES, Need, Picture, Read, digests, spec_of

JSON, HTML, SVG, PNG = "application/json", "text/html", "image/svg+xml", "image/png"
NOTHING_LOADED: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _nothing(*_: Any) -> list[Any]:
    return []


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of an answer.

    needs(response): further answers that it shows. specs(response, read): what is to be drawn as `image`.
    write(response, read, images): the bytes. headers: sent with them, beside the media type. file_name(answer): the
    name under which the form of an answer, as JSON, is saved; None: the client chooses one.
    """

    media_type: str
    write: Callable[[Any, Read, Sequence[bytes]], bytes]
    needs: Callable[[Any], list[Need]] = _nothing
    specs: Callable[[Any, Read], list[str]] = _nothing
    image: Image = "svg"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    file_name: Callable[[bytes], str] | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is written in letters."""
        return self.media_type != PNG

    @property
    def is_image(self) -> bool:
        """Whether there are images in it."""
        return self.specs is not _nothing

    @property
    def is_drawn(self) -> bool:
        """Whether it takes further answers, or an image: what is dear enough to be kept."""
        return self.is_image or self.needs is not _nothing

    @property
    def content_type(self) -> str:
        """The value of that header."""
        return f"{self.media_type}; charset=utf-8" if self.is_text else self.media_type


@cache
def forms_of(name: str) -> Mapping[str, Form]:
    """The forms of a resource by their media types."""
    computation = resource(name)
    found = [_rendering(computation, media_type) for media_type in computation.renderings]
    if name in PICTURES:
        found += _pictures(PICTURES[name])
    if name == "assessments":
        found.append(_report(PICTURES[name]))
    return {form.media_type: form for form in found}


def media_types(name: str) -> tuple[str, ...]:
    """In which a resource answers: JSON first, then its other forms."""
    return (JSON, *forms_of(name))


def _rendering(computation: Computation[Any, Any], media_type: str) -> Form:
    def write(response: Any, _: Read, __: Sequence[bytes]) -> bytes:
        return computation.renderings[media_type](response).encode()

    return Form(media_type=media_type, write=write)


def _pictures(picture: Picture) -> list[Form]:
    """The spec, and what is drawn of it."""

    def specs(response: Any, read: Read) -> list[str]:
        return [json.dumps(spec_of(picture, response, read))]

    def spec(response: Any, read: Read, _: Sequence[bytes]) -> bytes:
        return specs(response, read)[0].encode()

    def svg(_: Any, __: Read, images: Sequence[bytes]) -> bytes:
        return standing_alone(images[0])

    def png(_: Any, __: Read, images: Sequence[bytes]) -> bytes:
        return images[0]

    closed = {"Content-Security-Policy": f"{NOTHING_LOADED}; style-src 'unsafe-inline'"}
    return [
        Form(media_type=VEGA_LITE, needs=picture.needs, write=spec),
        Form(media_type=SVG, needs=picture.needs, specs=specs, write=svg, headers=closed),
        Form(media_type=PNG, needs=picture.needs, specs=specs, image="png", write=png),
    ]


def _report(picture: Picture) -> Form:
    """Return the form of a page to read and to print, with each picture drawn for itself.

    Where nothing is proved about the run, there are no pictures.
    """
    from service.web.report.writing import content_security_policy, report

    def needs(response: Any) -> list[Need]:
        return picture.needs(response) if response.summary.bounded else []

    def charts(response: Any, read: Read) -> Sequence[Spec]:
        return picture.charts(response, read) if response.summary.bounded else []

    def specs(response: Any, read: Read) -> list[str]:
        shown = digests(response, read)
        return [json.dumps(whole(chart, shown)) for chart in charts(response, read)]

    def write(response: Any, read: Read, images: Sequence[bytes]) -> bytes:
        return report(response, charts(response, read), images, digests(response, read))

    headers = {"Content-Security-Policy": content_security_policy()}
    return Form(media_type=HTML, needs=needs, specs=specs, write=write, headers=headers, file_name=_report_name)


def _report_name(written: bytes) -> str:
    """Return the file name of the report of an assessment, which is given as JSON: of ASCII, with the subject."""
    subject: dict[str, str] = json.loads(written)["context"].get("subject", {})
    parts = (file_name(subject.get(name, "")) for name in ("name", "version"))
    return "-".join(("privacy-report", *filter(None, parts))) + ".html"
