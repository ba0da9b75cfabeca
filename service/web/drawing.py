"""Vega-Lite specs as images, without a browser: what a process of its own does for the service.

vl-convert brings Vega and a JavaScript engine in one wheel. It loads no data (none of its addresses is allowed, and no
spec of ours names any) and no fonts but those of the machine and of the wheel.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal, final

from api_schemas.base import Request
from service.web.charts.style import Spec

Image = Literal["svg", "png"]
VEGA_LITE_VERSION: Final = "5.21"
"""The newest of the fifth major version, which the specs name, in vl-convert."""
PAPER: Final = "white"
"""A PNG has no text around it whose colour it could take: it gets a ground."""
PNG_SCALE: Final = 2.0
TIME_LIMIT_SECONDS: Final = 15.0
MEMORY_LIMIT_BYTES: Final = 2**30
"""The engine alone reserves 0.6 GB, and uses a quarter of that."""
DARK_AND_LIGHT: Final = "<style>:root{color:#1b1b1b}@media (prefers-color-scheme:dark){:root{color:#e6e6e6}}</style>"
"""Of an SVG that stands for itself: what is written takes the colour of the reader's scheme."""
_DEFINED: Final = re.compile(r'<clipPath id="([^"]*)"')
_USED: Final = re.compile(r'clip-path="url\(#([^)]*)\)"')
WARM_UP: Final[Spec] = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}


@final
class Drawn(Request):
    """What is to be drawn."""

    spec: str
    """A whole Vega-Lite spec as JSON."""
    image: Image


@final
class Drawing:
    """A picture, as a worker process is told to make one."""

    def body(self, request: Drawn, digest: str, engine_version: str) -> bytes:  # noqa: ARG002 - named by who calls
        """The image: the text of an SVG element, or a PNG."""
        return drawn(request)


def drawn(request: Drawn) -> bytes:
    """The image, made in this process."""
    import vl_convert

    if request.image == "svg":
        text: str = vl_convert.vegalite_to_svg(request.spec, vl_version=VEGA_LITE_VERSION, allowed_base_urls=[])
        return renumbered(text).encode()
    on_paper = json.dumps({**json.loads(request.spec), "background": PAPER})
    return bytes(
        vl_convert.vegalite_to_png(on_paper, vl_version=VEGA_LITE_VERSION, scale=PNG_SCALE, allowed_base_urls=[])
    )


def renumbered(svg: str, prefix: str = "part") -> str:
    """The same element with names of its own parts that depend on nothing else: the engine counts through all that it
    draws. Elements with different prefixes may stand in one page.
    """
    names = {name: f"{prefix}{place}" for place, name in enumerate(dict.fromkeys(_DEFINED.findall(svg)))}
    defined = _DEFINED.sub(lambda found: f'<clipPath id="{names[found[1]]}"', svg)
    return _USED.sub(lambda found: f'clip-path="url(#{names.get(found[1], "")})"', defined)


def warm_up() -> None:
    """Start the engine before anybody waits for it."""
    drawn(Drawn(spec=json.dumps(WARM_UP), image="svg"))


def standing_alone(svg: bytes) -> bytes:
    """An SVG element as a file: readable on light and on dark ground."""
    return re.sub(rb"(<svg[^>]*>)", rb"\1" + DARK_AND_LIGHT.encode(), svg, count=1)
