"""A run against a policy: every limit on the safe side, and the verdict of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from api_schemas.policies import Policy, PolicyRule
from service.computations.abstract import ResponseFields
from service.computations.digest import canonical_text, text_digest
from service.computations.read_numbers import ReadNumber

FINEST: Final = 1e-16
"""The finest tolerance that can be asked for."""


def ruling(rule: PolicyRule, answer: ResponseFields) -> ResponseFields:
    """How the answer stands to a rule."""
    number = ReadNumber.of(answer, rule.reads)
    lower, upper = number.lower, number.upper
    limit, sign = rule.limit, 1.0 if rule.at_most is not None else -1.0
    worse, better = (upper, lower) if rule.at_most is not None else (lower, upper)
    if worse is None or better is None:
        verdict = "undecided"
    elif sign * (limit - worse) >= 0:
        verdict = "met"
    else:
        verdict = "violated" if sign * (limit - better) < 0 else "undecided"
    margin = None
    if worse is not None and math.isfinite(worse):
        margin = sign * (limit - worse) / (abs(limit) if limit else 1.0)
    decides = _deciding_tolerance(limit, lower, upper) if verdict == "undecided" and answer["tight"] else None
    return {
        "rule": rule,
        "verdict": verdict,
        "margin": margin,
        **({} if decides is None else {"deciding_tolerance": decides}),
        "answer": answer,
    }


def _deciding_tolerance(limit: float, lower: float | None, upper: float | None) -> float | None:
    """How narrow an enclosure has to be that leaves the limit out, if the truth is in the middle of this one."""
    if lower is None or upper is None or not math.isfinite(upper) or upper == 0:
        return None
    needed = abs(limit - (lower + upper) / 2) / upper / 2
    return needed if needed >= FINEST else None


def decision(policy: Policy, rulings: Sequence[ResponseFields], run: str, *, void: bool) -> ResponseFields:
    """The verdict of a policy. `run`: the canonical form of what is assessed; `void`: its numbers say nothing."""
    digest = text_digest(canonical_text(policy))
    counted = [each["verdict"] for each in rulings if each["rule"].severity == "error"]
    worst = next((each for each in ("violated", "undecided") if each in counted), "met")
    return {
        "id": text_digest(f"[{run},{canonical_text(policy)}]"),
        "policy": digest,
        "name": policy.name,
        **({} if policy.revision is None else {"revision": policy.revision}),
        "verdict": "void" if void else worst,
        "rulings": rulings,
    }
