"""What a GLiR audit says in words: which statistic, what it rests on, and what to keep in mind."""

from __future__ import annotations

from typing import Final

from api_schemas.caveats import Assumption, AssumptionCode
from api_schemas.gradients import LARGEST_QUERIES
from service.privacy.audits.glir import P_VALUE_DRAWS, Noise
from service.privacy.audits.glir_theory import LARGEST_GROUPS

SOURCE: Final = (
    "Leemann, Pawelczyk, Kasneci 2023, Algorithm 1, corrected: factor n, lower tail, centred K, clipping by "
    "min(1, C/|g|); Fisher 1932 over the steps"
)
THEORY_SOURCE: Final = "Leemann, Pawelczyk, Kasneci 2023, Theorem 5.1 (K centred), Definition 4.1 over the queries"

WITHOUT_NOISE: Final = "S = n (m - theta)' Sigma^-1 (m - theta), chi2'_d(n K) for non-members; p is its lower tail."
PROPORTIONAL_NOISE: Final = (
    "S = (n^2/N) |Sigma^-1/2 ((m - mu) - (1 + n tau^2)(theta - mu))|^2, N = n + n^2 tau^2, for noise of covariance "
    "tau^2 Sigma; chi2'_d(N K) for non-members; p is its lower tail."
)
ISOTROPIC_NOISE: Final = (
    "Minus twice the log-likelihood ratio of the two normal laws of m in the eigenvectors of Sigma, without the terms "
    f"that do not depend on m; p is its rank among {P_VALUE_DRAWS} seeded draws of m for a non-member, plus one, over "
    f"{P_VALUE_DRAWS + 1}: valid for any law of the statistic, and never below 1/{P_VALUE_DRAWS + 1}."
)


def _assume(code: AssumptionCode, text: str, simulated: bool) -> Assumption:
    return Assumption(code=code, text=text, holds="yes" if simulated else "unknown")


def assumptions(simulated: bool) -> tuple[Assumption, ...]:
    """What p-values and theory rest on; a simulation keeps it."""
    return (
        _assume(
            "mean_gradient_is_normal",
            "The mean gradient is normal given the query: exactly for normal gradients, else for large n.",
            simulated,
        ),
        _assume(
            "gradient_law_known",
            "Mean and covariance of a gradient are known; estimates make p-values approximate.",
            simulated,
        ),
        _assume(
            "steps_are_independent",
            "Steps are independent given the past; releases of the same hidden batch are not.",
            simulated,
        ),
        _assume("members_are_in_every_batch", "A member is in every batch whose mean is released.", simulated),
        _assume(
            "queries_are_independent",
            "Scores of different queries are independent: the confidence bands rest on it.",
            simulated,
        ),
    )


def statistic(noise: Noise) -> str:
    """The formula and the law of the statistic."""
    if noise.is_isotropic:
        return ISOTROPIC_NOISE
    return PROPORTIONAL_NOISE if noise.std > 0 else WITHOUT_NOISE


def notes(simulated: bool, noise: Noise, one_class: bool, queries: int) -> list[str]:
    """What a reader should know about this answer."""
    said = [
        "Queries are ranked by the sum of their log-likelihood ratios: every threshold on it is an optimal test.",
        "Theory: steps are composed exactly, as one step with the dimensions and susceptibilities of all; queries are "
        f"taken in up to {LARGEST_GROUPS} groups by the largest K of each, which bounds them from above.",
        "An attack above the bound is a defect of the training or the accounting, or one of the assumptions fails.",
    ]
    if not simulated:
        said.append(
            "Covariance: (1 - rho) S + rho (tr S/d) I; rho is `shrinkage`, for background gradients by default that of "
            "Ledoit and Wolf 2004: min(1, sum_k |x_k x_k' - S|^2/(b^2 |S - (tr S/d) I|^2))."
        )
        said.append("The mean of b background gradients adds about d/b to K, which makes p-values larger.")
    if noise.is_isotropic:
        said.append("Theory with noise: N = n + n^2 tau^2/lambda, lambda the largest variance, or C^2 if that is less.")
    if one_class:
        said.append("No ROC curve: it needs members and non-members.")
    if queries > LARGEST_QUERIES:
        said.append(f"Columns of single queries are left out above {LARGEST_QUERIES} queries.")
    return said
