"""Callers in the state of an ASGI request."""

from __future__ import annotations

from service.access.caller import ANONYMOUS, SCOPES, STATE_KEY, UNKNOWN_CALLER, Caller, caller_of


def test_caller_without_authentication_has_all_scopes() -> None:
    for scope in ({}, {"state": {}}, {"state": {"services": object()}}):
        assert caller_of(scope) is ANONYMOUS
    assert ANONYMOUS.scopes == SCOPES


def test_caller_is_read_from_state() -> None:
    caller = Caller("ci", "team", frozenset({"compute"}), "key", "pb1")
    assert caller_of({"state": {STATE_KEY: caller}}) is caller
    assert not UNKNOWN_CALLER.scopes
