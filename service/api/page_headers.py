"""Headers of HTML pages: a content security policy that allows only files of this service."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}
"""Header that forbids browsers to guess another media type."""

_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL | re.IGNORECASE)


def page_headers(html: str, **more: str) -> dict[str, str]:
    """Return the headers of an HTML page, with its content security policy.

    Nothing loads from other origins, no inline script runs, and no other page frames this page. Style sheets inside the
    page are allowed by their hashes. `more` has further directives or sources, by names with underscores, for example
    `img_src="'self' data:"`.
    """
    styles = " ".join(["'self'", *dict.fromkeys(map(_source_hash, _STYLE.findall(html)))])
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
    return NOSNIFF | {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}


def _source_hash(style: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
