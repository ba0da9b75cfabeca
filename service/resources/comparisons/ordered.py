"""Order of two runs at every false positive rate by their parameters alone, without evaluating a curve.

Two descriptions of the same form are compared field by field. `service/privacy/calibration/monotone.py` states which
way privacy moves with a number, and by which theorem. Composition, sampling and mixtures keep the order of their parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import ge
from typing import Any, Final

from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.training_runs import listed
from service.privacy.calibration.monotone import SIZES, law_of_mechanism

THEOREM: Final = (
    "At every rate, by theorem: every parameter is at least as private. More noise, a lower sampling rate and "
    "fewer steps are post-processing. A smaller stated parameter describes a smaller class of mechanisms."
)
PARTS: Final = ("mechanism", "mechanisms", "components")
"""Fields that hold descriptions."""
SAME: Final = "At every rate: both are one run with one attacker."


def is_at_least_as_hard(
    one: MechanismSpec, other: MechanismSpec, attacker: ThreatModelSpec, other_attacker: ThreatModelSpec
) -> bool:
    """Return whether the parameters prove that the run `one` is at least as hard to attack as `other`.

    The runs face the attackers `attacker` and `other_attacker`. The order holds at every false positive rate.
    """
    return (
        attacker == other_attacker
        and isinstance(attacker, WorstCaseThreatModel)
        and _is_harder_in_every_part(one, other)
    )


def _is_harder_in_every_part(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_harder_in_every_part, one, other))  # pyright: ignore[reportUnknownArgumentType]
    first, second = one.__dict__, other.__dict__
    return all(_is_harder_in(name, first, second) for name in first if first[name] != second[name])


def _is_harder_in(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    # In DP-SGD the numbers of epochs matter only through rate and steps, and so do batch and data set sizes under
    # Poisson sampling. For batches of a fixed size, the theorems about the sizes concern only upper bounds of the
    # power.
    value, kind = one[name], one.get("type", "")
    if name in PARTS:
        return _is_harder_in_every_part(value, other[name])
    by_rate = kind == "poisson_sampled" or one.get("sampling") == "poisson"
    if name == "epochs" or (name in SIZES and not (by_rate and name == "sample_rate")):
        return name == "epochs" or by_rate
    law = law_of_mechanism(kind, name, {**one, "epochs": None}, worst_case=True)
    return law.theorem != "" and (law.sign == 0 or _none_smaller(*(value, other[name])[:: law.sign]))


def _none_smaller(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or one is None:
        return False
    first, second = listed(one), listed(other)
    return len(first) == len(second) and all(map(ge, first, second))
