"""Public keys of a token issuer, read from a JWK set (RFC 7517)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWTError, get_algorithm_by_name

from service.access.algorithms import ALGORITHMS
from service.ed25519_points import is_weak_public_key

LARGEST_SET_BYTES: Final = 2**18
MOST_SIGNING_KEYS: Final = 64
LEAST_RSA_BITS, MOST_RSA_BITS = 2_048, 8_192
KEY_TYPES: Final[Mapping[str, tuple[str, str | None]]] = {
    **{name: ("RSA", None) for name in ALGORITHMS if name[:2] in ("RS", "PS")},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Key type and curve of each algorithm. A token is never verified with a key of another type."""


class InvalidKeySet(Exception):
    """Raised for a set of public keys (JWK set) that cannot be used. The message is a phrase for the operator."""


@final
@dataclass(frozen=True)
class SigningKey:
    """Public key of an issuer of tokens.

    `kid` is its id, None if the issuer names none. `key_type`, `curve` and `algorithm` are the members `kty`, `crv` and
    `alg` of a JSON Web Key. `algorithm` None means any algorithm of the type and curve.
    """

    kid: str | None
    key_type: str
    curve: str | None
    algorithm: str | None
    public_key: Any

    def verifies(self, algorithm: str) -> bool:
        """Return whether the key may verify tokens with this JWS algorithm, such as `EdDSA` or `ES256`."""
        return KEY_TYPES.get(algorithm) == (self.key_type, self.curve) and self.algorithm in (None, algorithm)


def read_key_set(content: bytes) -> tuple[SigningKey, ...]:
    """Return the keys of a JSON Web Key set that can verify a token. Raise InvalidKeySet without such a key.

    `content` is the set as bytes, of which only the first 64 keys are read. Symmetric keys, private keys, keys for
    encryption, short keys and points of small order are left out.
    """
    if len(content) > LARGEST_SET_BYTES:
        raise InvalidKeySet(f"the JWK set is longer than {LARGEST_SET_BYTES} bytes")
    try:
        listed: list[Any] = json.loads(content)["keys"]
        found = [_token_verification_key(each) for each in listed[:MOST_SIGNING_KEYS]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidKeySet("the document is not a JWK set") from None
    keys = tuple(key for key in found if key is not None)
    if not keys:
        raise InvalidKeySet(f"the JWK set has no public key for {', '.join(ALGORITHMS)}")
    return keys


def _token_verification_key(jwk: Any) -> SigningKey | None:
    if not isinstance(jwk, dict):
        return None
    jwk = cast("dict[str, Any]", jwk)
    kind, kid, named = jwk.get("kty"), jwk.get("kid"), jwk.get("alg")
    curve = None if kind == "RSA" else jwk.get("crv")
    algorithm = next((name for name, key_type in KEY_TYPES.items() if key_type == (kind, curve)), None)
    is_usable = (
        algorithm is not None
        and "d" not in jwk
        and jwk.get("use") in (None, "sig")
        and (kid is None or isinstance(kid, str))
        and (named is None or (isinstance(named, str) and KEY_TYPES.get(named) == (kind, curve)))
    )
    if not is_usable or algorithm is None:
        return None
    try:
        public_key = cast("Any", get_algorithm_by_name(algorithm)).from_jwk(jwk)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm, OverflowError):
        return None
    if kind == "RSA" and not LEAST_RSA_BITS <= public_key.key_size <= MOST_RSA_BITS:
        return None
    if kind == "OKP" and is_weak_public_key(public_key.public_bytes_raw()):
        return None
    return SigningKey(kid, str(kind), curve, named, public_key)
