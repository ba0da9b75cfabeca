"""Signed tokens of an issuer (JWT, RFC 7519), and the callers that they name."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

import jwt

from service.access.caller import SCOPES, Caller
from service.access.errors import AuthenticationUnavailable, Unauthenticated
from service.access.key_set_source import KeySetSource
from service.access.signing_keys import SigningKey

LONGEST_TOKEN_BYTES: Final = 8_192
LONGEST_NAME: Final = 255
VERIFIED_SECONDS: Final = 60.0
"""Time for which a verified token is not verified again."""
MOST_VERIFIED: Final = 4_096
SUBJECT_GROUP: Final = "sub:"
"""Start of the group of a token without a group claim. No group of a claim or of a key may begin like this."""
REQUIRED_CLAIMS: Final = ("exp", "iss", "aud", "sub")
UNREADABLE: Final = (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""Errors of the library for tokens of every malformed shape."""


@final
@dataclass(frozen=True)
class TokenRules:
    """Rules for tokens: their issuer, audience, algorithms, tolerated clock difference, and claim of the group.

    `group_claim` is None if the subject of a token determines its group.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    clock_skew_seconds: float
    group_claim: str | None


@final
class TokenVerifier:
    """Verifier of tokens with the keys of their issuer.

    The algorithm comes from the rules and the key, never from the token alone. Addresses and keys that a token itself
    contains (`jku`, `jwk`, `x5u`, `x5c`) are not used. A verified token is not verified again for 60 s, unless the keys
    of the issuer change.
    """

    def __init__(self, rules: TokenRules, source: KeySetSource, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._source = source
        self._wall_clock = wall_clock
        self._verified: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        """Callers of verified tokens by the digest of the token, with the time at which the entry ends."""
        self._generation = source.generation

    async def caller(self, token: bytes) -> Caller:
        """Return the caller that a signed token names.

        Raise Unauthenticated for a token that is malformed, longer than 8192 bytes, expired, or not valid by the rules
        and keys. Raise AuthenticationUnavailable if no keys could be read for a day.
        """
        if len(token) > LONGEST_TOKEN_BYTES:
            raise Unauthenticated(is_wrong=True)
        digest = hashlib.sha256(token).digest()
        self._forget_earlier_keys()
        known = self._verified.get(digest)
        now = self._wall_clock()
        if known is not None and now < known[0] and self._source.keys is not None:
            return known[1]
        try:
            caller, expires = await self._verify(token.decode("ascii"))
        except UNREADABLE:
            raise Unauthenticated(is_wrong=True) from None
        self._forget_earlier_keys()
        self._verified[digest] = (min(expires, now + VERIFIED_SECONDS), caller)
        if len(self._verified) > MOST_VERIFIED:
            self._verified.popitem(last=False)
        return caller

    def _forget_earlier_keys(self) -> None:
        if self._generation != self._source.generation:
            self._verified.clear()
            self._generation = self._source.generation

    async def _verify(self, token: str) -> tuple[Caller, float]:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._rules.algorithms or "crit" in header:
            raise Unauthenticated(is_wrong=True)
        key = self._find_only_key(algorithm, kid)
        if key is None:
            await self._source.refresh()
            key = self._find_only_key(algorithm, kid)
        if self._source.keys is None:
            raise AuthenticationUnavailable
        if key is None:
            raise Unauthenticated(is_wrong=True)
        claims = jwt.decode(
            token,
            key.public_key,
            algorithms=[algorithm],
            issuer=self._rules.issuer,
            audience=self._rules.audience,
            leeway=self._rules.clock_skew_seconds,
            options={"require": list(REQUIRED_CLAIMS)},
        )
        return _caller_of_claims(claims, self._rules), float(claims["exp"]) + self._rules.clock_skew_seconds

    def _find_only_key(self, algorithm: str, kid: str | None) -> SigningKey | None:
        fitting = [key for key in self._source.keys or () if key.verifies(algorithm)]
        named = fitting if kid is None else [key for key in fitting if key.kid == kid]
        return named[0] if len(named) == 1 else None


def _caller_of_claims(claims: Mapping[str, Any], rules: TokenRules) -> Caller:
    # Without the claim of the group, the group is `sub:` and the subject.
    subject = claims["sub"]
    if not _is_name(subject):
        raise Unauthenticated(is_wrong=True)
    group = f"{SUBJECT_GROUP}{subject}"
    claimed = None if rules.group_claim is None else claims.get(rules.group_claim)
    if claimed is not None:
        if not _is_name(claimed) or claimed.startswith(SUBJECT_GROUP):
            raise Unauthenticated(is_wrong=True)
        group = claimed
    return Caller(subject, group, _scopes_of_claims(claims), "token", f"{rules.issuer}#{subject}")


def _scopes_of_claims(claims: Mapping[str, Any]) -> frozenset[str]:
    # `scope` (RFC 8693) or `scp`, as a text with spaces or as a list
    given = claims.get("scope", claims.get("scp", ""))
    listed = given.split(" ") if isinstance(given, str) else cast("list[Any]", given if isinstance(given, list) else [])
    return frozenset(each for each in listed if isinstance(each, str) and each in SCOPES)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()
