"""Callers of the service, and the scopes that they may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, final, get_args

AccessScope = Literal["compute", "jobs", "ledgers:read", "ledgers:write", "metrics", "admin"]
"""What a caller may do. A route needs at most one scope."""

SCOPES: Final[frozenset[AccessScope]] = frozenset(get_args(AccessScope))
STATE_KEY: Final = "caller"
"""Key of the caller in the state of an ASGI scope."""


@final
@dataclass(frozen=True)
class Caller:
    """Caller of one request, as its credentials describe it.

    `name` is for logs. `group` is the owner of what the caller stores, by default the name of the caller. `kind` is how
    the caller was recognised. `identifier` is a stable and unique id of the credential, which is no secret: the id of a
    key, or the issuer and subject of a token.
    """

    name: str
    group: str
    scopes: frozenset[str]
    kind: Literal["anonymous", "key", "token"]
    identifier: str


ANONYMOUS: Final = Caller("anonymous", "anonymous", frozenset[str](SCOPES), "anonymous", "")
"""Every caller while authentication is off: all scopes."""
UNKNOWN_CALLER: Final = Caller("anonymous", "anonymous", frozenset(), "anonymous", "")
"""Caller without credentials of an open route while authentication is on: no scope."""


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Return the caller of an ASGI request, or `ANONYMOUS` while authentication is off.

    While authentication is on, a caller of an open route without credentials is `UNKNOWN_CALLER`, which has no scope.
    """
    state: Mapping[str, Any] = scope.get("state") or {}
    return cast("Caller", state.get(STATE_KEY, ANONYMOUS))
