"""Signed statements for tests: fixed keys, answers computed as the service does, and files on disk."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from service.command.in_process import render
from service.engine_version import ENGINE_VERSION
from service.importers.catalogue import validate_with_imports
from service.resources.catalogue import resource
from service.resources.digest import bytes_digest, canonical_bytes
from service.signing.keys import SigningKeys, VerificationKey
from service.signing.verification import Signer

GAUSSIAN: Final[dict[str, Any]] = {
    "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}
ASSESSED: Final[dict[str, Any]] = {
    "mechanism": {"type": "gaussian", "noise_multiplier": 8.0},
    "context": {
        "delta": 1e-6,
        "attested": [{"code": "noise_is_fresh", "holds": "yes", "by": "J. Doe", "when": "2026-11-23"}],
    },
    "policy": {"name": "gate", "rules": [{"question": {"type": "epsilon", "delta": 1e-6}, "at_most": 4.0}]},
}


def private_key(number: int) -> Ed25519PrivateKey:
    """Return the key whose secret is this number."""
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def pem(number: int) -> bytes:
    """Return the private key with this number in PEM."""
    return private_key(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def keys(*numbers: int) -> SigningKeys:
    """Return the signing keys with these numbers, of which the first signs."""
    public = tuple(VerificationKey.of(private_key(number).public_key()) for number in numbers)
    return SigningKeys(private_key(numbers[0]), public)


def key_set(*numbers: int) -> dict[str, VerificationKey]:
    """Return the public keys with these numbers by identifier."""
    return {key.id: key for key in keys(*numbers).public}


def signer(*numbers: int) -> Signer:
    """Return a signer with the signing keys of these numbers."""
    return Signer(keys(*(numbers or (1,))))


def answered(name: str, body: bytes, engine_version: str = ENGINE_VERSION) -> tuple[bytes, bytes]:
    """Return the bytes of a request, whose SHA-256 is its digest, and its answer."""
    computation = resource(name)
    named = canonical_bytes(name, engine_version, sent := validate_with_imports(computation.request_type, body))
    return named, computation.body(sent, bytes_digest(named), engine_version)


@cache
def bounds_envelope() -> bytes:
    """Return the envelope of a short answer, signed by key 1."""
    return signer().sign_answer("answer", *answered("bounds", json.dumps(GAUSSIAN).encode()))


@cache
def assessment() -> tuple[bytes, bytes]:
    """Return the request and the answer of an assessment with a policy and an attestation."""
    return answered("assessments", json.dumps(ASSESSED).encode())


@cache
def signed_report() -> bytes:
    """Return a signed HTML report, signed by key 1. Its charts are left out, since they take seconds to draw."""
    named, body = assessment()
    from service.rendering.report.html import render_report

    computation = resource("assessments")
    page = render_report(computation.response_type.model_validate_json(body), [], [], [])
    return signer().sign_report(named, body, page)


def drawn_report() -> bytes:
    """Return an HTML report with its charts, as the service has it, without a signature."""
    return render(resource("assessments"), assessment()[1], "text/html")


def write(folder: Path, name: str, content: bytes) -> str:
    """Write a file that only its owner may read, and return its path."""
    path = folder / name
    path.write_bytes(content)
    path.chmod(0o600)
    return str(path)


def write_keys(folder: Path, *numbers: int) -> str:
    """Write the public keys with these numbers as the service publishes them, and return the path."""
    return write(folder, "keys.json", json.dumps(keys(*numbers).key_set).encode())
