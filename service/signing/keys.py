"""Keys for signatures: private keys in PEM files, public keys as JSON Web Keys (RFC 8037).

The identifier of a key is the thumbprint of its JSON Web Key (RFC 7638). It follows from the key, so that no two keys
have the same identifier, and no file can rename a key.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from api_schemas.signatures import KEY_SET_PATH
from service.ed25519_points import is_weak_public_key
from service.signing.errors import UnusableKeys

LARGEST_PEM_FILE: Final = 2**16
LARGEST_KEY_SET: Final = 2**18
MOST_KEYS: Final = 32
PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----[^-]*-----END \1-----")
PRIVATE, PUBLIC = b"PRIVATE KEY", b"PUBLIC KEY"
CREATE_A_KEY: Final = "make one with: privacy-bounds signing-key create"
ROOT_USER: Final = 0


@final
@dataclass(frozen=True, slots=True)
class VerificationKey:
    """Public key for the verification of signatures, with its identifier."""

    id: str
    key: Ed25519PublicKey

    @staticmethod
    def of(key: Ed25519PublicKey) -> VerificationKey:
        """Return the public key with its thumbprint (RFC 7638) as identifier."""
        members = _required_members(key.public_bytes(Encoding.Raw, PublicFormat.Raw))
        canonical = json.dumps(members, sort_keys=True, separators=(",", ":"))
        return VerificationKey(encode_base64url(hashlib.sha256(canonical.encode()).digest()), key)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether `signature` is a signature of `message` by this key."""
        try:
            self.key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    @property
    def json_web_key(self) -> dict[str, str]:
        """Public key as a JSON Web Key."""
        return {
            **_required_members(self.key.public_bytes(Encoding.Raw, PublicFormat.Raw)),
            "kid": self.id,
            "use": "sig",
            "alg": "EdDSA",
        }


@final
@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Keys with which a service signs. The first private key signs, and all public keys are published."""

    private: Ed25519PrivateKey
    public: tuple[VerificationKey, ...]

    @property
    def id(self) -> str:
        """Identifier of the key that signs, its thumbprint (RFC 7638)."""
        return self.public[0].id

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message by the first key."""
        return self.private.sign(message)

    @property
    def key_set(self) -> dict[str, list[dict[str, str]]]:
        """Public keys as a JSON Web Key Set."""
        return {"keys": [each.json_web_key for each in self.public]}


def create_private_key() -> bytes:
    """Return a new private key in PEM (PKCS 8, not encrypted)."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_signing_keys(path: Path) -> SigningKeys:
    """Read the keys of a PEM file that only its owner may read. Raise UnusableKeys.

    The first block is a private key. Further blocks are private or public keys, at most 32 in all and each once.
    """
    blocks = PEM_BLOCK.findall(text := _read_private_file(path))
    if len(blocks) != text.count(b"-----BEGIN"):
        raise UnusableKeys("the file of signing keys has a PEM block without its end")
    if not blocks:
        raise UnusableKeys(f"the file of signing keys has no PEM block; {CREATE_A_KEY}")
    if len(blocks) > MOST_KEYS:
        raise UnusableKeys(f"the file of signing keys has more than {MOST_KEYS} keys")
    keys = [_read_pem_block(found[1], found[0]) for found in PEM_BLOCK.finditer(text)]
    first = keys[0]
    if not isinstance(first, Ed25519PrivateKey):
        raise UnusableKeys("the first key of the file of signing keys must be a private key")
    public = [VerificationKey.of(key.public_key() if isinstance(key, Ed25519PrivateKey) else key) for key in keys]
    if len({key.id for key in public}) < len(public):
        raise UnusableKeys("the file of signing keys has a key more than once")
    return SigningKeys(first, tuple(public))


def _read_private_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer does not block
        try:
            _check_private(os.fstat(descriptor))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                text = file.read(LARGEST_PEM_FILE + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UnusableKeys(f"the file of signing keys cannot be read: {reason}") from None
    if len(text) > LARGEST_PEM_FILE:
        raise UnusableKeys(f"the file of signing keys has more than {LARGEST_PEM_FILE} bytes")
    return text


def _check_private(found: os.stat_result) -> None:
    # The group of a file that root owns may read it, too: the operator gave this group to the service. PostgreSQL has
    # the same rule.
    if not stat.S_ISREG(found.st_mode):
        raise UnusableKeys("the file of signing keys is not a regular file")
    allowed = 0o740 if found.st_uid == ROOT_USER else 0o700
    if stat.S_IMODE(found.st_mode) & 0o777 & ~allowed:
        raise UnusableKeys("others may read the file of signing keys; restrict it with: chmod 600")


def _read_pem_block(label: bytes, block: bytes) -> Ed25519PrivateKey | Ed25519PublicKey:
    if label == b"ENCRYPTED PRIVATE KEY":
        raise UnusableKeys(f"a signing key is encrypted, and the service has no password for it; {CREATE_A_KEY}")
    try:
        key = load_pem_public_key(block) if label == PUBLIC else load_pem_private_key(block, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UnusableKeys(f"a PEM block of the file of signing keys is no key; {CREATE_A_KEY}") from None
    if not isinstance(key, Ed25519PrivateKey | Ed25519PublicKey):
        kind = type(key).__name__.removeprefix("_").partition("P")[0] or "another"
        raise UnusableKeys(f"a signing key is of type {kind}, and only Ed25519 signs; {CREATE_A_KEY}")
    return key


def parse_key_set(text: bytes) -> dict[str, VerificationKey]:
    """Return the Ed25519 public keys of a JSON Web Key Set by identifier.

    Raise UnusableKeys if one entry is no such key, a private one, weak or repeated, or names another identifier.
    """
    if len(text) > LARGEST_KEY_SET:
        raise UnusableKeys(f"the file of public keys has more than {LARGEST_KEY_SET} bytes")
    try:
        found: Any = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise UnusableKeys("the file of public keys is not JSON, or has a member twice") from None
    listed: Any = cast("dict[str, Any]", found).get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise UnusableKeys(f"the file of public keys is no JSON Web Key Set, as the service has it at {KEY_SET_PATH}")
    entries = cast("list[Any]", listed)
    if len(entries) > MOST_KEYS:
        raise UnusableKeys(f"the file of public keys has more than {MOST_KEYS} keys")
    keys = [_read_json_web_key(entry) for entry in entries]
    if len({key.id for key in keys}) < len(keys):
        raise UnusableKeys("the file of public keys has a key more than once")
    return {key.id: key for key in keys}


def _read_json_web_key(entry: Any) -> VerificationKey:
    members = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    if (members.get("kty"), members.get("crv")) != ("OKP", "Ed25519"):
        raise UnusableKeys("a public key is of another type; signatures need `kty` OKP and `crv` Ed25519")
    if "d" in members:
        raise UnusableKeys("the file of public keys contains a private key; keep that key secret, and replace it")
    if members.get("use", "sig") != "sig" or members.get("alg", "EdDSA") not in ("EdDSA", "Ed25519"):
        raise UnusableKeys("a public key is not for signatures with Ed25519")
    x = members.get("x")
    try:
        raw = decode_base64url(x if isinstance(x, str) else "")
        key = VerificationKey.of(Ed25519PublicKey.from_public_bytes(raw))
    except ValueError:
        raise UnusableKeys("a public key has no `x` of 32 bytes in base64url") from None
    if is_weak_public_key(raw):
        raise UnusableKeys("a public key is a point of small order, for which anybody can sign; remove it")
    if members.get("kid", key.id) != key.id:
        raise UnusableKeys("the `kid` of a public key is not its thumbprint (RFC 7638)")
    return key


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member occurs twice")
    return found


def _required_members(raw: bytes) -> dict[str, str]:
    return {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(raw)}


def encode_base64url(raw: bytes) -> str:
    """Return bytes in base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Return the bytes of a text in base64url without padding. Raise ValueError for any other text."""
    raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if encode_base64url(raw) != text:
        raise ValueError("not canonical")
    return raw
