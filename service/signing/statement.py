"""Statements (in-toto v1): which answer belongs to which request, with all that a replay needs.

The members are fixed, and repeat nothing that could differ: the digest of the request, its policy and attestations, and
the versions are compared with their sources when a statement is read.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final, cast, final

from pydantic_core import from_json

from api_schemas.signatures import PREDICATE_FAMILY, PREDICATE_TYPE, STATEMENT_TYPE, SignedKind
from service.resources.digest import canonical_text
from service.signing.envelope import parse_canonical
from service.signing.errors import NotSignable, Unreadable

STATEMENT_MEMBERS: Final = {"_type", "predicate", "predicateType", "subject"}
PREDICATE_MEMBERS: Final = {
    "answer",
    "attestations",
    "engine_version",
    "key_id",
    "kind",
    "policy",
    "request",
    "resource",
}
CONTRADICTION: Final = "the statement contradicts itself: {} differs from its request or answer"

SHA256: Final = re.compile(r"[0-9a-f]{64}")
SUBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "answer": ("request", "answer"),
    "decision": ("request", "answer"),
    "report": ("request", "answer", "report"),
    "job": ("request", "answer"),
}
"""Names of the subjects of a statement in their order, by its kind."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Statement about one answer. `request` and `answer` are JSON objects.

    `request_sha256` is the digest of the result: the SHA-256 of request, resource and engine version. `answer_sha256`
    is the SHA-256 of the answer as the service sent it (of a job: of all results as JSON lines), and `report_sha256`
    that of an HTML report without its signature, or None.
    """

    kind: SignedKind
    resource: str
    engine_version: str
    request: dict[str, Any]
    answer: dict[str, Any]
    request_sha256: str
    answer_sha256: str
    report_sha256: str | None
    key_id: str

    def encode(self) -> bytes:
        """Return the statement as the bytes that are signed: JSON in canonical form (RFC 8785)."""
        return canonical_text(self.members()).encode()

    def members(self) -> dict[str, Any]:
        """Return the statement as a JSON object in the form of in-toto: `_type`, `subject` and a predicate."""
        digests = {"request": self.request_sha256, "answer": self.answer_sha256, "report": self.report_sha256}
        return {
            "_type": STATEMENT_TYPE,
            "predicateType": PREDICATE_TYPE,
            "subject": [{"name": name, "digest": {"sha256": digests[name]}} for name in SUBJECTS[self.kind]],
            "predicate": {
                "kind": self.kind,
                "resource": self.resource,
                "engine_version": self.engine_version,
                "request": self.request,
                "answer": self.answer,
                "policy": self.request.get("policy"),
                "attestations": _attestations(self.request),
                "key_id": self.key_id,
            },
        }


def make_statement(
    kind: SignedKind, request: bytes, answer: bytes, *, report_sha256: str | None, key_id: str
) -> Statement:
    """Return the statement about an answer, from the bytes of its request (`canonical_bytes`) and of the answer.

    `kind` says what the answer is, `report_sha256` is the digest of its HTML report or None, and `key_id` names the key
    that will sign. The answer of a job has one JSON line for each point. Raise NotSignable if the request is not that
    of the answer.
    """
    named = from_json(request)
    sha256 = hashlib.sha256(request).hexdigest()
    answered = job_answer(answer, sha256, named["engine_version"]) if kind == "job" else from_json(answer)
    statement = Statement(
        kind=kind,
        resource=named["resource"],
        engine_version=named["engine_version"],
        request=named["request"],
        answer=answered,
        request_sha256=sha256,
        answer_sha256=hashlib.sha256(answer).hexdigest(),
        report_sha256=report_sha256,
        key_id=key_id,
    )
    if contradiction := _contradiction_with_answer(statement):
        raise NotSignable(f"The stored request is not that of the result: {contradiction} differs.")
    return statement


def job_answer(lines: bytes, request_sha256: str, engine_version: str) -> dict[str, Any]:
    """Return the results of a job as one JSON object, from its JSON lines with one point each.

    The members are `digest` (`request_sha256` after `sha256:`), `engine_version` and `points`.
    """
    points = [from_json(line) for line in lines.splitlines()]
    return {"digest": f"sha256:{request_sha256}", "engine_version": engine_version, "points": points}


def parse_statement(payload: bytes) -> Statement:
    """Parse the statement in a signed payload. Raise Unreadable unless the payload is its canonical form."""
    members = parse_canonical(payload)
    kind: Any = members.get("predicateType")
    if isinstance(kind, str) and kind.startswith(PREDICATE_FAMILY) and kind != PREDICATE_TYPE:
        raise Unreadable("the statement has a newer form than this version reads; install a newer privacy-bounds")
    predicate: Any = members.get("predicate")
    if (
        set(members) != STATEMENT_MEMBERS
        or (members["_type"], kind) != (STATEMENT_TYPE, PREDICATE_TYPE)
        or not isinstance(predicate, dict)
        or set(cast("dict[str, Any]", predicate)) != PREDICATE_MEMBERS
    ):
        raise Unreadable("the envelope has another statement than one of privacy-bounds")
    statement = _statement_of(cast("dict[str, Any]", predicate), members["subject"])
    expected = statement.members()
    for name in ("policy", "attestations"):
        if predicate[name] != expected["predicate"][name]:
            raise Unreadable(CONTRADICTION.format(f"`{name}`"))
    computed = _request_sha256(statement.resource, statement.engine_version, statement.request)
    if members["subject"] != expected["subject"] or statement.request_sha256 != computed:
        raise Unreadable(CONTRADICTION.format("the digest of the request"))
    if contradiction := _contradiction_with_answer(statement):
        raise Unreadable(CONTRADICTION.format(contradiction))
    return statement


def _statement_of(predicate: dict[str, Any], subjects: Any) -> Statement:
    kind = predicate["kind"]
    texts = [predicate[name] for name in ("resource", "engine_version", "key_id")]
    objects = [predicate[name] for name in ("request", "answer")]
    if not (
        all(isinstance(each, str) for each in (kind, *texts))
        and kind in SUBJECTS
        and all(isinstance(each, dict) for each in objects)
    ):
        raise Unreadable("a member of the statement has another type than this version reads")
    found = _digests_by_name(subjects)
    if found is None or tuple(found) != SUBJECTS[kind]:
        raise Unreadable("the statement has other subjects than request and answer")
    return Statement(
        kind=kind,
        resource=texts[0],
        engine_version=texts[1],
        request=objects[0],
        answer=objects[1],
        request_sha256=found["request"],
        answer_sha256=found["answer"],
        report_sha256=found.get("report"),
        key_id=texts[2],
    )


def _digests_by_name(subjects: Any) -> dict[str, str] | None:
    try:
        found = {subject["name"]: subject["digest"]["sha256"] for subject in subjects}
        return found if all(SHA256.fullmatch(each) for each in found.values()) else None
    except (TypeError, KeyError):
        return None


def _request_sha256(resource: str, engine_version: str, request: dict[str, Any]) -> str:
    named = {"engine_version": engine_version, "request": request, "resource": resource}
    return hashlib.sha256(canonical_text(named).encode()).hexdigest()


def _attestations(request: dict[str, Any]) -> list[Any]:
    context: Any = request.get("context")
    attested: Any = cast("dict[str, Any]", context).get("attested") if isinstance(context, dict) else None
    return cast("list[Any]", attested) if isinstance(attested, list) else []


def _contradiction_with_answer(statement: Statement) -> str:
    name = "result" if statement.kind == "decision" else "digest"
    if statement.answer.get(name) != f"sha256:{statement.request_sha256}":
        return "the digest of the answer"
    if statement.answer.get("engine_version") != statement.engine_version:
        return "the engine version of the answer"
    return ""
