"""DSSE envelopes (version 1.0.2): signing, and strict reading.

An envelope has exactly one signature, no unknown members, canonical base64, and is itself in canonical form (RFC 8785).
Each statement and key therefore have exactly one envelope, and any changed byte is noticed.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final, cast, final

from pydantic_core import from_json

from api_schemas.signatures import PAYLOAD_TYPE
from service.resources.digest import LARGEST_CANONICAL_INTEGER, canonical_text
from service.signing.errors import NotSignable, NotVerified, Unreadable
from service.signing.keys import SigningKeys, VerificationKey
from service.signing.size_limit import LARGEST_ENVELOPE, TOO_LONG

LEAST_WITH_EXPONENT: Final = 10**21
"""RFC 8785 writes doubles of at least this size with an exponent."""
SIGNATURE_BYTES: Final = 64
KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""Thumbprint of a key in base64url."""


@final
@dataclass(frozen=True, slots=True)
class SignedPayload:
    """Payload with its signature and the identifier of the key, none of which is verified."""

    payload: bytes
    key_id: str
    signature: bytes

    def encode(self) -> bytes:
        """Return the signed envelope as bytes in canonical form (RFC 8785). No value of it needs an escape."""
        signature = f'{{"keyid":"{self.key_id}","sig":"{base64.b64encode(self.signature).decode()}"}}'
        head = b'{"payload":"%b","payloadType":"%b",' % (base64.b64encode(self.payload), PAYLOAD_TYPE.encode())
        return head + f'"signatures":[{signature}]}}'.encode()

    def verify(self, keys: dict[str, VerificationKey]) -> None:
        """Raise NotVerified unless the signature is by the key in `keys` with the identifier of the envelope.

        The error is also raised if `keys` has no such key.
        """
        key = keys.get(self.key_id)
        if key is None:
            raise NotVerified("the key of the signature is not among the given keys")
        if not key.verifies(self.signature, encode_for_signature(self.payload)):
            raise NotVerified("the signature is not that of this statement")


def sign_payload(payload: bytes, keys: SigningKeys) -> bytes:
    """Return the envelope of a payload in JSON, signed by the first key.

    Raise NotSignable if the envelope has more than 32 MB.
    """
    envelope = SignedPayload(payload, keys.id, keys.sign(encode_for_signature(payload))).encode()
    if len(envelope) > LARGEST_ENVELOPE:
        raise NotSignable(TOO_LONG)
    return envelope


def parse_envelope(text: bytes) -> SignedPayload:
    """Parse the signed envelope in `text`. Raise Unreadable unless the bytes are its canonical form."""
    members = _parse_object(text)
    if set(members) != {"payload", "payloadType", "signatures"}:
        raise Unreadable("the file is no DSSE envelope: it must have payload, payloadType and signatures only")
    if members["payloadType"] != PAYLOAD_TYPE:
        raise Unreadable(f"the envelope has another payload than {PAYLOAD_TYPE}")
    key_id, signature = _single_signature(members["signatures"])
    envelope = SignedPayload(_decode_base64(members["payload"]), key_id, signature)
    if envelope.encode() != text:
        raise Unreadable("the envelope is not in canonical form (RFC 8785)")
    return envelope


def _single_signature(signatures: Any) -> tuple[str, bytes]:
    match signatures:
        case [{"keyid": str(key_id), "sig": str(signature), **others}] if not others:
            found = _decode_base64(signature)
        case _:
            raise Unreadable("the envelope must have exactly one signature, with keyid and sig only")
    if not KEY_ID.fullmatch(key_id) or len(found) != SIGNATURE_BYTES:
        raise Unreadable("the signature of the envelope is not one of Ed25519")
    return key_id, found


def encode_for_signature(payload: bytes) -> bytes:
    """Return the bytes that are signed for a payload: type, length and payload in the encoding of DSSE."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _parse_object(text: bytes) -> dict[str, Any]:
    # of duplicate members, the last one counts
    if len(text) > LARGEST_ENVELOPE:
        raise Unreadable(f"the signed statement has more than {LARGEST_ENVELOPE} bytes")
    try:
        found: Any = from_json(text, allow_inf_nan=False, cache_strings="none")
    except ValueError:
        raise Unreadable("the file is no signed statement: it is not JSON, or nested too deep") from None
    if not isinstance(found, dict):
        raise Unreadable("the file is no signed statement: it is not a JSON object")
    return cast("dict[str, Any]", found)


def parse_canonical(text: bytes) -> dict[str, Any]:
    """Return the JSON object whose canonical form (RFC 8785) is `text`. Raise Unreadable for any other bytes.

    Duplicate members, other orders, whitespace and other forms of numbers have other bytes.
    """
    found = cast("dict[str, Any]", restore_doubles(_parse_object(text)))
    try:
        is_canonical = canonical_text(found).encode() == text
    except ValueError:  # numbers and texts without a canonical form
        is_canonical = False
    if not is_canonical:
        raise Unreadable("the statement is not in canonical form (RFC 8785)")
    return found


def restore_doubles(value: Any) -> Any:
    """Return a value that was parsed from canonical JSON, with doubles in place of large integers.

    RFC 8785 writes doubles from 2^53 to 1e21 with all digits and without a point, and integers of this size as strings.
    """
    if isinstance(value, dict):
        return {key: restore_doubles(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [restore_doubles(inner) for inner in cast("list[Any]", value)]
    is_double = isinstance(value, int) and LARGEST_CANONICAL_INTEGER < abs(value) < LEAST_WITH_EXPONENT
    return float(value) if is_double else value


def _decode_base64(text: Any) -> bytes:
    # another form of the same bytes is not accepted
    try:
        found = base64.b64decode(text.encode("ascii") if isinstance(text, str) else b"?", validate=True)
    except ValueError:
        found = b""
    if not found or base64.b64encode(found).decode() != text:
        raise Unreadable("the envelope is not in canonical base64")
    return found
