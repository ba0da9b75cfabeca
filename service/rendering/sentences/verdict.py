"""Verdicts of a policy as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from api_schemas.policies import PolicyVerdict

BETWEEN: str = "the limit lies between the lower and the upper bound"


@final
class Standing(NamedTuple):
    """Counts behind the verdict of a policy.

    `counted` has (verdict, reason) of every rule that counts. An undecided rule without a reason (None) has its limit
    between both bounds. `warnings` is the number of unmet rules that only warn, and `assumptions` that of assumptions
    behind the rules that count; nobody attests `open` of them. `missing` counts missing required attestations, and
    `refuted` the assumptions behind all numbers that are attested not to hold.
    """

    verdict: PolicyVerdict
    counted: Sequence[tuple[str, str | None]]
    warnings: int
    assumptions: int
    open: int
    missing: int
    refuted: int


def verdict_sentence(standing: Standing) -> str:
    """Return the verdict as a sentence. Only a sentence that starts with "Every limit" states that a limit is met.

    An undecided verdict has the reason of its first undecided rule.
    """
    match standing.verdict:
        case "void":
            return (
                f"No limit is decided: {_count(standing.refuted, 'assumption')} behind the numbers "
                f"{_are(standing.refuted)} attested not to hold."
            )
        case "violated":
            return f"{_share(standing, 'violated')} not kept.{_warnings(standing)}"
        case "undecided":
            reasons = dict.fromkeys(reason for verdict, reason in standing.counted if verdict == "undecided")
            [first, *_] = reasons
            why = BETWEEN if first is None else first[0].lower() + first[1:].rstrip(".")
            return f"{_share(standing, 'undecided')} not decided: {why}.{_warnings(standing)}"
        case "met_if_attested":
            return (
                f"Every limit is kept, but {_count(standing.missing, 'required attestation')} {_are(standing.missing)} "
                f"missing.{_warnings(standing)}"
            )
        case "met":
            return f"Every limit is kept{_grounds(standing)}.{_warnings(standing)}"


def _grounds(standing: Standing) -> str:
    if not standing.assumptions:
        return ""
    if standing.open:
        return f" if {_count(standing.open, 'unattested assumption')} {'holds' if standing.open == 1 else 'hold'}"
    if standing.assumptions == 1:
        return ", and the assumption behind the numbers is attested"
    return f", and all {standing.assumptions} assumptions behind the numbers are attested"


def _share(standing: Standing, verdict: str) -> str:
    number, total = sum(each == verdict for each, _ in standing.counted), len(standing.counted)
    if total == 1:
        return "The limit is"
    return f"{number} of {total} limits {_are(number)}"


def _warnings(standing: Standing) -> str:
    if not standing.warnings:
        return ""
    return (
        f" {_count(standing.warnings, 'limit')} with severity warning {_are(standing.warnings)} not proved to be kept."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
