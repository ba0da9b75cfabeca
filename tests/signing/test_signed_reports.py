"""A signed report covers all of its bytes but its own block, which has one place and one text."""

from __future__ import annotations

import hashlib
import json

import pytest

from service.signing.errors import NotVerified, SigningError, Unreadable
from service.signing.reports import BLOCK_END, BLOCK_START, END_OF_PAGE, insert_block, split_report
from service.signing.verification import read_file, verify_file
from tests.rendering.page_text import page_text
from tests.signing.statements import assessment, bounds_envelope, drawn_report, key_set, signed_report, signer
from tests.slow_marker import thorough

KEYS = key_set(1)


def test_report_names_all_bytes_but_its_block() -> None:
    statement = verify_file(signed_report(), KEYS)
    start, end = signed_report().index(BLOCK_START), signed_report().index(BLOCK_END) + len(BLOCK_END)
    assert statement.report_sha256 == hashlib.sha256(signed_report()[:start] + signed_report()[end:]).hexdigest()
    assert statement.answer == json.loads(assessment()[1])


def test_block_says_how_to_verify() -> None:
    assert "privacy-bounds verify report.html --keys keys.json" in page_text(signed_report().decode())


@pytest.mark.parametrize("step", [997, thorough(7)])
def test_no_report_with_a_changed_byte_is_verified(step: int) -> None:
    """No report with a changed byte is verified, outside and inside the block of the page that holds the signature."""
    report = signed_report()
    for place in range(0, len(report), step):
        changed = report[:place] + bytes([report[place] ^ 1]) + report[place + 1 :]
        with pytest.raises(SigningError):
            verify_file(changed, KEYS)


def test_every_byte_around_the_block_counts() -> None:
    report = signed_report()
    start, end = report.index(BLOCK_START), report.index(BLOCK_END) + len(BLOCK_END)
    places = [*range(start - 20, start + len(BLOCK_START) + 5), *range(end - len(BLOCK_END) - 5, len(report))]
    for place in places:
        for changed in (report[:place] + b" " + report[place:], report[:place] + report[place + 1 :]):
            with pytest.raises(SigningError):
                verify_file(changed, KEYS)


def test_block_has_one_place() -> None:
    report, envelope = split_report(signed_report())
    block = BLOCK_START + envelope + BLOCK_END
    moved = report.replace(b"<main>", block + b"<main>")
    twice = report.replace(b"<main>", block + b"<main>").removesuffix(END_OF_PAGE) + block + END_OF_PAGE
    after = report + block
    for other in (moved, twice, after, signed_report() + b"\n", b"\n" + signed_report()):
        assert hashlib.sha256(other).digest() != hashlib.sha256(signed_report()).digest()
        with pytest.raises(SigningError):
            verify_file(other, KEYS)


def test_page_without_a_signature_is_unreadable() -> None:
    report, _ = split_report(signed_report())
    for page in (report, b"<html></html>", b"<", signed_report().replace(BLOCK_END, b"")):
        with pytest.raises(Unreadable):
            read_file(page)


def test_statement_of_another_report_is_not_verified() -> None:
    report, envelope = split_report(signed_report())
    other = report.replace(b"Privacy report", b"Privacy Report")
    with pytest.raises(NotVerified, match="differs from the one that was signed"):
        verify_file(insert_block(other, envelope), KEYS)


def test_statements_of_answers_and_reports_do_not_stand_for_each_other() -> None:
    report, envelope = split_report(signed_report())
    with pytest.raises(Unreadable, match="about a report; verify the HTML file"):
        verify_file(envelope, KEYS)
    with pytest.raises(Unreadable, match="not about a report"):
        verify_file(insert_block(report, bounds_envelope()), KEYS)


def test_names_in_a_report_cannot_imitate_a_block() -> None:
    """A subject that is named like the block of a signature cannot imitate it.

    Signing refuses pages that contain such a block.
    """
    with pytest.raises(ValueError, match="without a signature"):
        insert_block(b"<html><body>" + BLOCK_START + END_OF_PAGE, b"{}")
    assert b"&lt;footer" not in signed_report()


@pytest.mark.thorough
def test_report_with_charts_is_verified() -> None:
    signed = signer().sign_report(*assessment(), drawn_report())
    assert verify_file(signed, KEYS).kind == "report"
    assert len(signed) > 50_000
