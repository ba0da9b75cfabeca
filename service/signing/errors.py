"""Errors of signed statements.

SigningError
- UnusableKeys      a file of keys that cannot be read, or has keys of another type.
- Unreadable        bytes that are no envelope, statement or signed report.
- NotVerified       a well-formed envelope whose signature or digest is wrong.
- NotSignable       an answer without what a statement needs.
"""

from __future__ import annotations


class SigningError(Exception):
    """Base of all errors of signed statements. `sentence` says what is wrong, and what to do about it."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


class UnusableKeys(SigningError):
    """Raised for a file of keys that cannot be read, or that has keys with which the service cannot sign or verify."""


class Unreadable(SigningError):
    """Raised for bytes that are no envelope, no statement of this version, or no signed report."""


class NotVerified(SigningError):
    """Raised for an envelope whose signature, key or digest is wrong."""


class NotSignable(SigningError):
    """Raised for an answer that has no statement, for example because its request is not stored."""
