"""Results of the rules of a policy, each on the safe side, and the verdict of the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from api_schemas.assessments import AssessedAssumption
from api_schemas.policies import Policy, PolicyRule, PolicyVerdict
from api_schemas.questions import (
    DeltaQuestion,
    EpsilonQuestion,
)
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.sentences.meaning import meaning
from service.rendering.sentences.units import cap_of
from service.rendering.sentences.verdict import Standing, verdict_sentence
from service.rendering.sentences.void import RELAXED, refuted
from service.resources.abstract import ResponseFields
from service.resources.assessments.answering import attacker_of
from service.resources.assessments.effects import HAZARDS, NO_BOUND
from service.resources.assessments.hazards import largest_delta
from service.resources.assessments.judged import AssessedRun, RunWithHazards
from service.resources.assessments.requirements import missing_of, requirements_of
from service.resources.digest import canonical_text, text_digest
from service.resources.read_numbers import ReadNumber, is_guarantee

FINEST: Final = 1e-16
"""Smallest tolerance of a request."""
ATTACKER_REFUTED: Final = "An assumption about the attacker of this limit does not hold."
ONE_RECORD: Final = "The theory of this attacker covers one record, and one privacy unit may have several records."
ABOUT_ONE_RECORD: Final = (ONE_RECORD, HAZARDS["records_not_capped"].why)
ONLY_FROM_ABOVE: Final = "The only proved fact is that the run reveals no more than the run with its hazards."


@final
@dataclass(frozen=True, slots=True)
class RulingGrounds:
    """Grounds of a verdict on a policy, other than the numbers.

    Attributes
    ----------
    run, judged
        The run as described, and with the changes of its hazards.
    assumptions
        Assumptions on which all numbers rest.
    of_attackers : callable
        Returns the assumptions about the attacker of a rule.
    """

    run: AssessedRun
    judged: RunWithHazards
    assumptions: Sequence[AssessedAssumption]
    of_attackers: Callable[[PolicyRule], Sequence[AssessedAssumption]]

    @property
    def is_void(self) -> bool:
        """Whether an assumption behind all numbers is attested not to hold."""
        return bool(refuted(self.assumptions))

    def is_attained(self, rule: PolicyRule) -> bool:
        """Return whether lower bounds for the judged run hold for the run that takes place, for the attacker of `rule`.

        Otherwise only a lower bound for the run as described shows that the rule is violated.
        """
        return self.judged.is_attained(attacker_of(rule, self.run))

    def resting(self, rules: Sequence[PolicyRule]) -> list[AssessedAssumption]:
        """Return the distinct assumptions on which the answers to these policy rules rest."""
        all_of_them = [*self.assumptions, *(each for rule in rules for each in self.of_attackers(rule))]
        return list({each.code: each for each in all_of_them}.values())


def ruling(
    rule: PolicyRule, answer: ResponseFields, grounds: RulingGrounds, described: Callable[[], ResponseFields]
) -> ResponseFields:
    """Return the result of a policy rule as fields of `Ruling`.

    `answer` is that for the run with the changes of its hazards. `grounds` has the assumptions of the answer.
    `described()` returns the answer for the run as described.
    """
    number = ReadNumber.of(answer, rule.reads)
    verdict, beside = verdict_of(rule, number), None
    is_attained = grounds.is_attained(rule)
    if verdict == "violated" and not is_attained:
        beside = described()
        verdict = "violated" if verdict_of(rule, ReadNumber.of(beside, rule.reads)) == "violated" else "undecided"
    reason = _why_undecided(rule, grounds)
    if reason is not None and (verdict == "met" or reason in (ATTACKER_REFUTED, NO_BOUND)):
        verdict = "undecided"
    elif reason in ABOUT_ONE_RECORD and not _is_on_the_safe_side(rule):
        verdict = "undecided"  # several records together reveal more, and may reach the limit
    elif verdict == "met" and not is_attained and not _is_on_the_safe_side(rule):
        verdict, reason = "undecided", ONLY_FROM_ABOVE
    elif beside is not None and verdict == "undecided":
        reason = "The run as described meets this limit. No bound proves the limit for the run with its hazards."
    decides = None
    if verdict == "undecided" and reason is None and answer["tight"]:
        decides = _deciding_tolerance(rule.limit, number.lower, number.upper)
    return {
        "rule": rule,
        "meaning": meaning(rule.model_copy(update={"threat_model": attacker_of(rule, grounds.run)})),
        "verdict": verdict,
        **({"reason": reason} if reason is not None and verdict == "undecided" else {}),
        "margin": _margin(rule, number),
        **({} if decides is None else {"deciding_tolerance": decides}),
        "answer": answer,
        **({} if beside is None else {"described": beside}),
    }


def verdict_of(rule: PolicyRule, number: ReadNumber) -> str:
    """Return the verdict of a policy rule on the number `number`: "met", "violated" or "undecided".

    "met" is proved by the bound that is worst for the rule, and "violated" by the other bound. A number without proved
    bounds is "undecided".
    """
    limit, sign = rule.limit, _sign(rule)
    worse, better = _worst_and_best_bound(rule, number)
    if worse is None or better is None:
        return "undecided"
    if sign * (limit - worse) >= 0:
        return "met"
    return "violated" if sign * (limit - better) < 0 else "undecided"


def _is_on_the_safe_side(rule: PolicyRule) -> bool:
    # every run that reveals less than a run that keeps the rule also keeps the rule
    return is_guarantee(rule.question, rule.reads) == (rule.at_most is None)


def _sign(rule: PolicyRule) -> float:
    return 1.0 if rule.at_most is not None else -1.0


def _worst_and_best_bound(rule: PolicyRule, number: ReadNumber) -> tuple[float | None, float | None]:
    # None: this bound is not proved
    return (number.upper, number.lower) if rule.at_most is not None else (number.lower, number.upper)


def _margin(rule: PolicyRule, number: ReadNumber) -> float | None:
    worse, _ = _worst_and_best_bound(rule, number)
    if worse is None or not math.isfinite(worse):
        return None
    return _sign(rule) * (rule.limit - worse) / (abs(rule.limit) if rule.limit else 1.0)


def _why_undecided(rule: PolicyRule, grounds: RulingGrounds) -> str | None:
    if any(each.holds == "no" and each.if_not == RELAXED for each in grounds.of_attackers(rule)):
        return ATTACKER_REFUTED
    if grounds.judged.failed:
        return NO_BOUND
    cap = cap_of(grounds.run.context, grounds.run.threat_model)
    if getattr(rule.threat_model, "records", None) is None and cap is None:
        return HAZARDS["records_not_capped"].why
    if cap is not None and cap > 1 and not isinstance(rule.threat_model, WorstCaseThreatModel | None):
        return ONE_RECORD
    if _delta_of(rule) >= largest_delta(grounds.run):
        return HAZARDS["delta_not_small"].why
    return None


def _delta_of(rule: PolicyRule) -> float:
    match rule.question:
        case EpsilonQuestion(delta=delta):
            return delta
        case DeltaQuestion():
            return rule.at_most or 0.0
        case _:
            return 0.0


def _deciding_tolerance(limit: float, lower: float | None, upper: float | None) -> float | None:
    # Estimate the relative width at which an enclosure would exclude the limit: half the distance from the middle to
    # the limit. None: no tolerance of a request does.
    if lower is None or upper is None or not math.isfinite(upper) or upper == 0:
        return None
    needed = abs(limit - (lower + upper) / 2) / upper / 2
    return needed if needed >= FINEST else None


def decision(
    policy: Policy, rule_results: Sequence[ResponseFields], digest: str, grounds: RulingGrounds
) -> ResponseFields:
    """Return the verdict of a policy as fields of `Decision`.

    `rule_results` has the fields of a `Ruling` for each rule of the policy. `digest` is that of the assessment and
    identifies the decision. `grounds` has what the verdict rests on beside the numbers.
    """
    counted = [each for each in rule_results if each["rule"].severity == "error"]
    resting = grounds.resting([each["rule"] for each in counted])
    requirements = requirements_of(policy, resting, grounds.run.context)
    missing = missing_of(requirements)
    verdict = _verdict(counted, grounds, bool(missing))
    standing = Standing(
        verdict=verdict,
        counted=[(each["verdict"], each.get("reason")) for each in counted],
        warnings=sum(each["rule"].severity != "error" and each["verdict"] != "met" for each in rule_results),
        assumptions=len(resting),
        open=sum(each.holds == "unknown" for each in resting),
        missing=len(missing),
        refuted=len(refuted(grounds.assumptions)),
    )
    return {
        "id": digest,
        "policy": text_digest(canonical_text(policy)),
        "name": policy.name,
        **({} if policy.revision is None else {"revision": policy.revision}),
        "verdict": verdict,
        "sentence": verdict_sentence(standing),
        **({} if policy.requires is None else {"requires": policy.requires}),
        "requirements": requirements,
        "missing": missing,
        "rulings": rule_results,
    }


def _verdict(counted: Sequence[ResponseFields], grounds: RulingGrounds, is_missing: bool) -> PolicyVerdict:
    if grounds.is_void:
        return "void"
    verdicts = [each["verdict"] for each in counted]
    if "violated" in verdicts:
        return "violated"
    if "undecided" in verdicts:
        return "undecided"
    return "met_if_attested" if is_missing else "met"
