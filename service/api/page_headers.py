"""Headers of pages for people: what a browser may load and run on them, which is what this service sends."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

SAME_TYPE: Final = {"X-Content-Type-Options": "nosniff"}
"""Nothing is read as another type than it is sent as."""

_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL | re.IGNORECASE)


def page_headers(html: str, **more: str) -> dict[str, str]:
    """Headers of a page: nothing is loaded from elsewhere, no script stands in the page, and no other page frames it.

    Style sheets that stand in the page are allowed by their hashes. `more`: further directives or other sources by
    their names with underscores, say `img_src="'self' data:"`.
    """
    styles = " ".join(["'self'", *dict.fromkeys(map(_hash, _STYLE.findall(html)))])
    directives = {
        "default_src": "'none'",
        "script_src": "'self'",
        "style_src": styles,
        "img_src": "'self' data:",
        "font_src": "'self'",
        "connect_src": "'self'",
        "base_uri": "'none'",
        "form_action": "'none'",
        "frame_ancestors": "'none'",
    } | more
    policy = "; ".join(f"{name.replace('_', '-')} {sources}".strip() for name, sources in directives.items())
    return SAME_TYPE | {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}


def _hash(style: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
