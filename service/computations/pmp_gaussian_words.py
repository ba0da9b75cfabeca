"""What an answer about PMP of the Gaussian mechanism says in words."""

from __future__ import annotations

from typing import Final

from api_schemas.caveats import Assumption
from service.privacy.pmp.gaussian.lower_bound import KnownExposure
from service.privacy.pmp.gaussian.parameter import GaussianPmp, GaussianRelease

SOURCE: Final = (
    "Upper end: Lowy et al. 2023, Proposition 12, over every point. Lower end: sets of outcomes on a line; Hoeffding "
    "1963, Theorem 4, for many points. Profile: Balle and Wang 2018, Theorem 8"
)
WORST_CASE_SOURCE: Final = "Balle and Wang 2018, Theorem 8, sensitivity 2 C (sum) or 2 C/n (mean) for a replaced record"


def assumptions() -> tuple[Assumption, ...]:
    """What makes the answer conditional."""
    return (
        Assumption(
            code="data_are_a_random_subset",
            text="The data are a uniformly random subset, of the stated size, of the parent set, and the attacker "
            "knows nothing more about them.",
            holds="unknown",
        ),
        Assumption(
            code="one_noisy_release",
            text="Nothing but this one release depends on the data, and its noise is fresh, secret and normal on every "
            "coordinate.",
            holds="unknown",
        ),
    )


def notes(found: GaussianPmp, release: GaussianRelease, delta: float, count: int, dimension: int) -> list[str]:
    """What a reader should know about this answer."""
    said = [
        "Practical membership privacy does not compose: parameters of several releases must not be added.",
        "It holds for this parent set alone; the worst case holds for all data.",
    ]
    if delta == 0:
        said.append("With delta = 0 the Gaussian mechanism has no finite epsilon: its log ratios are unbounded.")
    elif found.epsilon.upper == 0:
        said.append("delta alone covers what the release tells: epsilon is at its floor, 0.")
    elif found.known is not None:
        said.append(_lower_end(found.known, count, dimension))
    if found.bracket is not None:
        said.append(found.bracket)
    if release.clip_radius is None:
        said.append("Records are not clipped, so that the worst case has no finite sensitivity and no finite epsilon.")
    if 2 * release.data_size != count:
        said.append(
            f"A point is in the data with probability {release.data_size}/{count}: success_bound is for this prior, "
            "and counts who always gives the likelier answer."
        )
    return said


def _lower_end(known: KnownExposure, count: int, dimension: int) -> str:
    line = "" if dimension == 1 else ", projected on the direction of the most exposed point"
    if known.method == "moments":
        return "Lower end: half-lines of outcomes bounded by exponential moments; it may be far below the truth."
    if known.method == "half_lines":
        return f"Lower end: the best half-line of outcomes for the most exposed point{line}."
    which = "all points" if known.points == count else f"the {known.points} outermost points"
    return f"Lower end: the truth for {which}{line}, by the best sets of outcomes."
