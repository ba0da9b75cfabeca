"""Vega-Lite specifications as SVG and PNG images, rendered without a browser.

The package vl-convert contains Vega and a JavaScript engine. Rendering runs in a separate process. The engine loads no
data, since no address is allowed and no specification of the service names one. The engine uses only the fonts of the
machine and of the package.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal, final

from api_schemas.base import Request
from service.rendering.charts.style import Spec

Image = Literal["svg", "png"]
VEGA_LITE_VERSION: Final = "5.21"
"""Newest release of Vega-Lite 5 in vl-convert. Specifications name version 5."""
PAPER: Final = "white"
"""Background of a PNG. A PNG has no surrounding text whose colour it could take."""
PNG_SCALE: Final = 2.0
TIME_LIMIT_SECONDS: Final = 15.0
MEMORY_LIMIT_BYTES: Final = 2**30
"""Memory limit of the renderer. The engine reserves 0.6 GB and uses a quarter of that."""
DARK_AND_LIGHT: Final = "<style>:root{color:#1b1b1b}@media (prefers-color-scheme:dark){:root{color:#e6e6e6}}</style>"
"""Style sheet of a standalone SVG: text takes the colour of the reader's colour scheme."""
_DEFINED: Final = re.compile(r'<clipPath id="([^"]*)"')
_USED: Final = re.compile(r'clip-path="url\(#([^)]*)\)"')
WARM_UP: Final[Spec] = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}


@final
class ChartRequest(Request):
    """Request to render one image: the Vega-Lite specification of a chart (`spec`), and the form of the image."""

    spec: str
    """Complete Vega-Lite specification as JSON."""
    image: Image


@final
class ChartDrawing:
    """Rendering task for a worker process, which draws one chart."""

    def body(self, request: ChartRequest, digest: str, engine_version: str) -> bytes:  # noqa: ARG002 - named by who calls
        """Return the image of the requested chart as bytes: the text of an SVG element, or a PNG.

        The digest and the engine version are not used.
        """
        return render_chart(request)


def render_chart(request: ChartRequest) -> bytes:
    """Render the image of the requested chart in this process, and return its bytes."""
    import vl_convert

    if request.image == "svg":
        text: str = vl_convert.vegalite_to_svg(request.spec, vl_version=VEGA_LITE_VERSION, allowed_base_urls=[])
        return with_stable_ids(text).encode()
    on_paper = json.dumps({**json.loads(request.spec), "background": PAPER})
    return bytes(
        vl_convert.vegalite_to_png(on_paper, vl_version=VEGA_LITE_VERSION, scale=PNG_SCALE, allowed_base_urls=[])
    )


def render_pdf(spec: str) -> bytes:
    """Return a complete Vega-Lite specification as the bytes of a PDF page, drawn in this process."""
    import vl_convert

    on_paper = json.dumps({**json.loads(spec), "background": PAPER})
    return bytes(vl_convert.vegalite_to_pdf(on_paper, vl_version=VEGA_LITE_VERSION, allowed_base_urls=[]))


def with_stable_ids(svg: str, prefix: str = "part") -> str:
    """Return an SVG element with identifiers that depend on the element alone, and that begin with `prefix`.

    The identifiers are those of clipping paths. The engine numbers identifiers across all images that it renders.
    Elements with different prefixes may stand in one page.
    """
    names = {name: f"{prefix}{place}" for place, name in enumerate(dict.fromkeys(_DEFINED.findall(svg)))}
    defined = _DEFINED.sub(lambda found: f'<clipPath id="{names[found[1]]}"', svg)
    return _USED.sub(lambda found: f'clip-path="url(#{names.get(found[1], "")})"', defined)


def warm_up() -> None:
    """Start the rendering engine (Vega) before the first request."""
    render_chart(ChartRequest(spec=json.dumps(WARM_UP), image="svg"))


def as_standalone_svg(svg: bytes) -> bytes:
    """Return an SVG element as a file that is readable on light and on dark backgrounds."""
    return re.sub(rb"(<svg[^>]*>)", rb"\1" + DARK_AND_LIGHT.encode(), svg, count=1)
