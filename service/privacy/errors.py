"""Errors of the numeric core, as one tree.

The base class is PrivacyComputationError. Its subclasses are:

- OutOfDomain: a value lies outside the domain of a definition.
- UnsupportedCombination: the parts are valid, but no theorem or engine here covers them together.
- NumericalFailure: an invariant that proofs guarantee did not hold, and no number is returned.
- DeadlinePassed: the deadline of a request with many parts passed before this part.
- DisputedRun: two independent engines disagree about this run. The core itself does not raise it.
"""

from __future__ import annotations


class PrivacyComputationError(Exception):
    """Base of all errors of the numeric core.

    The core leaves `pointer` empty; a caller with access to the request stores the JSON pointer of the part there.
    """

    pointer: str = ""


class OutOfDomain(PrivacyComputationError):
    """Value outside the domain of a definition.

    `name` is the field, `value` the given value, `domain` the allowed values, and `remedy` the advice.
    """

    def __init__(self, name: str, value: object, domain: str, remedy: str = "") -> None:
        self.name, self.value, self.domain, self.remedy = name, value, domain, remedy
        super().__init__(f"{name} = {value!r} must be {domain}." + (f" {remedy}" if remedy else ""))


class UnsupportedCombination(PrivacyComputationError):
    """Valid parts that no theorem or engine here covers together.

    `field` is the part of the request to change (`mechanism`, `threat_model`, `method`). `requested` describes the
    combination, `reason` states why it is not supported, and `supported` lists the alternatives.
    """

    def __init__(self, field: str, requested: str, reason: str, supported: tuple[str, ...]) -> None:
        self.field, self.requested, self.reason, self.supported = field, requested, reason, supported
        super().__init__(f"{requested} is not supported: {reason} Supported: {', '.join(supported)}.")


class NumericalFailure(PrivacyComputationError):
    """Violated invariant that the proofs guarantee (for example lower > upper): a defect; no number is returned."""


class DeadlinePassed(PrivacyComputationError):
    """Deadline of a request with many parts that passed before a part was complete."""


class DisputedRun(PrivacyComputationError):
    """Run with a number that two independent engines dispute, so that no number of the run is served."""
