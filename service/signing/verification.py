"""Verification of signed answers, decisions and reports, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from api_schemas.signatures import SignedKind
from service.signing.envelope import SignedPayload, parse_envelope, sign_payload
from service.signing.errors import NotSignable, NotVerified, Unreadable
from service.signing.keys import SigningKeys, VerificationKey
from service.signing.reports import insert_block, is_report, report_sha256, split_report
from service.signing.size_limit import LARGEST_ENVELOPE, TOO_LONG
from service.signing.statement import Statement, make_statement, parse_statement


@final
@dataclass(frozen=True, slots=True)
class Signer:
    """Signer of answers, decisions and reports with the keys of a service."""

    keys: SigningKeys

    def sign_answer(self, kind: SignedKind, request: bytes | None, answer: bytes, report: bytes | None = None) -> bytes:
        """Return the envelope about an answer or decision in JSON, and about its HTML report.

        `request` has the bytes whose SHA-256 is the digest of the answer. Without `report` the statement is about the
        answer alone. Raise NotSignable if `request` is None, or if the envelope is too long.
        """
        if request is None:
            raise NotSignable(
                "The request of this result is not stored, and a statement contains it. Send the request to its route."
            )
        if len(request) + len(answer) > LARGEST_ENVELOPE:  # parsing would take much memory, for nothing
            raise NotSignable(TOO_LONG)
        sha256 = None if report is None else report_sha256(report)
        statement = make_statement(kind, request, answer, report_sha256=sha256, key_id=self.keys.id)
        return sign_payload(statement.encode(), self.keys)

    def sign_report(self, request: bytes | None, answer: bytes, report: bytes) -> bytes:
        """Return an HTML report with a block that contains its signed envelope.

        `answer` is the answer in JSON, and `request` has the bytes whose SHA-256 is its digest. Raise NotSignable as
        `sign_answer` does.
        """
        return insert_block(report, self.sign_answer("report", request, answer, report))


def verify_file(text: bytes, keys: dict[str, VerificationKey]) -> Statement:
    """Verify the signature of a signed envelope or report, and return its statement.

    The signature is verified before the statement is parsed. Raise Unreadable for another form of file. Raise
    NotVerified if the key is not in `keys`, or if the signature, the answer or the report is another one.
    """
    report, envelope = _parts(text)
    envelope.verify(keys)
    return _statement(envelope, report)


def read_file(text: bytes) -> Statement:
    """Return the statement of a signed envelope or report without verifying the signature.

    Raise Unreadable, and NotVerified if the statement contradicts its key or its report.
    """
    report, envelope = _parts(text)
    return _statement(envelope, report)


def _parts(text: bytes) -> tuple[bytes | None, SignedPayload]:
    if not is_report(text):
        return None, parse_envelope(text)
    found = split_report(text)
    return found.report, parse_envelope(found.envelope)


def _statement(envelope: SignedPayload, report: bytes | None) -> Statement:
    statement = parse_statement(envelope.payload)
    if statement.key_id != envelope.key_id:
        raise NotVerified("the statement names another key than its signature")
    if statement.kind == "report" and report is None:
        raise Unreadable("the statement is about a report; verify the HTML file that contains it")
    if statement.kind != "report" and report is not None:
        raise Unreadable("the statement in the page is not about a report")
    if report is not None and statement.report_sha256 != report_sha256(report):
        raise NotVerified("the report differs from the one that was signed")
    return statement
