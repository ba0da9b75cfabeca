"""Errors of authentication and authorisation. The sentences of their problems stand in `service.problems`."""

from __future__ import annotations

from service.access.caller import AccessScope


class AccessError(Exception):
    """Base of all errors about who may call."""


class Unauthenticated(AccessError):
    """Raised for a request without valid credentials.

    `is_wrong` is whether credentials were sent. The error does not say what is wrong with them.
    """

    def __init__(self, *, is_wrong: bool = False) -> None:
        self.is_wrong = is_wrong
        super().__init__()


class MissingScope(AccessError):
    """Raised for a caller without the scope that a route needs. `scope` is the missing one."""

    def __init__(self, scope: AccessScope) -> None:
        self.scope = scope
        super().__init__(scope)


class AuthenticationUnavailable(AccessError):
    """Raised while credentials cannot be checked, because the keys that check them cannot be read."""


class KeyStoreError(Exception):
    """Failure to read or change the stored API keys. The message is a phrase for the operator."""
