"""Signed HTML reports: a report carries its envelope in one block, directly before the end of the page.

The statement covers every byte of the report but the block. The block has one place and fixed text, so that neither it
nor the rest of the report can change unnoticed.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from service.signing.errors import Unreadable

END_OF_PAGE: Final = b"</body>\n</html>"
BLOCK_START: Final = (
    b'<footer class="signature">\n<p>This report is signed. To verify it: '
    b"<code>privacy-bounds verify report.html --keys keys.json</code></p>\n"
    b'<script type="application/json" id="signature">'
)
BLOCK_END: Final = b"</script>\n</footer>\n"
LARGEST_REPORT: Final = 2**26


class SignedReport(NamedTuple):
    """Parts of a signed HTML report: the report without its block, and the envelope (signature) in the block."""

    report: bytes
    envelope: bytes


def report_sha256(report: bytes) -> str:
    """Return the SHA-256 of `report`, from which the signature has to be removed, in hexadecimal digits."""
    return hashlib.sha256(report).hexdigest()


def insert_block(report: bytes, envelope: bytes) -> bytes:
    """Return an HTML report with a signed envelope inserted as a block at its end.

    Raise ValueError if the report does not end as the reports of the service do, or has a block already.
    """
    if not report.endswith(END_OF_PAGE) or BLOCK_START in report:
        raise ValueError("not a report without a signature")
    return report.removesuffix(END_OF_PAGE) + BLOCK_START + envelope + BLOCK_END + END_OF_PAGE


def is_report(text: bytes) -> bool:
    """Return whether the bytes of a file begin with `<`, as a signed report does and an envelope does not."""
    return text.lstrip()[:1] == b"<"


def split_report(text: bytes) -> SignedReport:
    """Split a signed report into the report and its envelope. Raise Unreadable."""
    if len(text) > LARGEST_REPORT:
        raise Unreadable(f"the report has more than {LARGEST_REPORT} bytes")
    before, start, after = text.partition(BLOCK_START)
    envelope, end, rest = after.partition(BLOCK_END)
    if not start:
        raise Unreadable("the page has no signature of this service")
    if not end or rest != END_OF_PAGE:
        raise Unreadable("the signature of the page is incomplete, or not at its place before the end")
    return SignedReport(before + END_OF_PAGE, envelope)
