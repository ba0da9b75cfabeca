"""Everything the numeric core raises, as one tree.

PrivacyComputationError
- OutOfDomain              a value lies outside the domain of a definition
- UnsupportedCombination   the parts are valid, but no theorem or engine here covers them together
- NumericalFailure         an invariant that proofs guarantee did not hold; no number is returned
- DeadlinePassed           the deadline of a request with many parts passed before this part
"""

from __future__ import annotations


class PrivacyComputationError(Exception):
    """Base of all errors of the numeric core.

    `pointer` is left empty by the core; who knows the request writes into it which part is meant (a JSON pointer).
    """

    pointer: str = ""


class OutOfDomain(PrivacyComputationError):
    """A value lies outside the domain of a definition.

    `name` is the field, `value` what was given, `domain` says what is allowed, `remedy` what to do about it.
    """

    def __init__(self, name: str, value: object, domain: str, remedy: str = "") -> None:
        self.name, self.value, self.domain, self.remedy = name, value, domain, remedy
        super().__init__(f"{name} = {value!r} must be {domain}." + (f" {remedy}" if remedy else ""))


class UnsupportedCombination(PrivacyComputationError):
    """Valid parts that no theorem or engine here covers together.

    `field` is the part of the request to change (`mechanism`, `threat_model`, `method`), `requested` says in words what
    was asked, `reason` why it is not served, `supported` lists what is.
    """

    def __init__(self, field: str, requested: str, reason: str, supported: tuple[str, ...]) -> None:
        self.field, self.requested, self.reason, self.supported = field, requested, reason, supported
        super().__init__(f"{requested} is not supported: {reason} Supported: {', '.join(supported)}.")


class NumericalFailure(PrivacyComputationError):
    """An invariant that the proofs guarantee did not hold (for example lower > upper): a defect, never a number."""


class DeadlinePassed(PrivacyComputationError):
    """The deadline of a request with many parts passed before this part: see `numerics.work.ends_when`."""
