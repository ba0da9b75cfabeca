"""Sentences of an audit by the gradient likelihood-ratio test (GLiR): formulas, sources, assumptions and notes."""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Assumption, AssumptionCode
from api_schemas.gradients import LARGEST_QUERIES
from service.privacy.audits.glir import P_VALUE_DRAWS, ReleaseNoise
from service.privacy.audits.glir_theory import LARGEST_GROUPS

SOURCE: Final = (
    "Leemann, Pawelczyk, Kasneci 2023, Algorithm 1, corrected: factor n, lower tail, centred K, clipping by "
    "min(1, C/|g|); Fisher 1932 over the steps"
)
BACKGROUND_SOURCE: Final = (
    "; with background gradients Student's t test on a direction that depends on the pooled scatter: Fang, Zhang 1990; "
    "Laeuter 1996 (/errata#gmip-plug-in)"
)
THEORY_SOURCE: Final = "Leemann, Pawelczyk, Kasneci 2023, Theorem 5.1 (K centred), Definition 4.1 over the queries"

WITHOUT_NOISE: Final = (
    "S = n (m - theta)' Sigma^-1 (m - theta) has the law chi2'_d(n K) for non-members. p is the lower tail "
    "(/errata#gmip-statistic)."
)
PROPORTIONAL_NOISE: Final = (
    "S = (n^2/N) |Sigma^-1/2 ((m - mu) - (1 + n tau^2)(theta - mu))|^2 with N = n + n^2 tau^2, for noise of "
    "covariance tau^2 Sigma. S has the law chi2'_d(N K) for non-members, and p is the lower tail "
    "(/errata#gmip-noise)."
)
ISOTROPIC_NOISE: Final = (
    "The statistic is minus twice the log-likelihood ratio of the two normal laws of m in the eigenvectors of "
    f"Sigma. Terms that do not depend on m are omitted. p is the rank of the statistic among {P_VALUE_DRAWS} "
    f"seeded draws of m for a non-member, plus one, divided by {P_VALUE_DRAWS + 1}. p is valid for any law of "
    f"the statistic, and at least 1/{P_VALUE_DRAWS + 1}."
)
FROM_BACKGROUND: Final = (
    "With b background gradients of mean x, the statistic is minus Student's t of m against the background: "
    "-a'(m - x)/sqrt((v + 1/b) a'S a). Both are projected on a = M^-1 (theta - w). S is the covariance of the "
    "background, v Sigma the covariance of m, and w = x + (m - x)/(1 + b v). M is the shrunk covariance of "
    "background and release together. For non-members the statistic has exactly Student's law with b - 1 "
    "degrees of freedom, and p is the lower tail (/errata#gmip-plug-in)."
)
ADDED_NOISE: Final = (
    "Isotropic noise: seeded noise of variance n tau^2 is added to every coordinate of the background "
    "gradients. The release then has the covariance of their mean, and the law of the statistic stays exact."
)


def statistic_text(noise: ReleaseNoise, known: bool, estimated: bool) -> str:
    """Return the sentence with formula and law of the gradient likelihood ratio (GLiR) test statistics.

    `known` is whether some step has a given law of gradients, and `estimated` whether some step has background
    gradients. `noise` says where the noise is added.
    """
    texts = [FROM_BACKGROUND] if estimated else []
    if known:
        if noise.is_isotropic:
            texts.append(ISOTROPIC_NOISE)
        else:
            texts.append(PROPORTIONAL_NOISE if noise.std > 0 else WITHOUT_NOISE)
    return " With a given mean and covariance: ".join(texts)


def source_text(estimated: bool) -> str:
    """Return the sources of the answer; `estimated` is whether some step has background gradients."""
    return SOURCE + (BACKGROUND_SOURCE if estimated else "")


def _assume(code: AssumptionCode, text: str, simulated: bool) -> Assumption:
    return Assumption(code=code, text=text, holds="yes" if simulated else "unknown")


def assumptions(simulated: bool, known: bool, estimated: bool) -> tuple[Assumption, ...]:
    """Return the assumptions of the p-values and the theoretical curve of GLiR (gradient likelihood ratio).

    The assumptions are marked as satisfied if the gradients were `simulated`, else as unknown. `known` is whether some
    step has a given mean and covariance of gradients, and `estimated` whether some step has sample gradients of other
    records.
    """
    listed = [
        _assume(
            "mean_gradient_is_normal",
            "The mean gradient is normally distributed given the query. That is exact for normal gradients, and an "
            "approximation for large n.",
            simulated,
        )
    ]
    if known:
        listed.append(
            _assume(
                "gradient_law_known",
                "Mean and covariance of a gradient are known. Estimated moments make p-values too small; send the "
                "background gradients instead.",
                simulated,
            )
        )
    if estimated:
        listed.append(
            _assume(
                "background_is_disjoint",
                "Background gradients are independent normal draws from the law of the gradients in the batch. No "
                "background record is in a batch or among the queries, and no two steps share background records.",
                simulated,
            )
        )
    return (*listed, *_independence(simulated))


def _independence(simulated: bool) -> tuple[Assumption, ...]:
    return (
        _assume(
            "steps_are_independent",
            "Steps are independent given the earlier steps. Releases of one hidden batch are not independent.",
            simulated,
        ),
        _assume("members_are_in_every_batch", "A member is in every batch whose mean is released.", simulated),
        _assume(
            "queries_are_independent",
            "Scores of different queries are independent. The confidence bands rest on this assumption.",
            simulated,
        ),
    )


def notes(noise: ReleaseNoise, estimated: bool, one_class: bool, queries: int) -> tuple[str, ...]:
    """Return notes for readers of a GLiR audit (gradient likelihood ratio).

    `estimated` is whether some step has background gradients, and `queries` the number of scored gradients. `one_class`
    is whether all queries are members, or none of them is. `noise` says where noise is added.
    """
    listed = [
        (
            "Queries are ranked by the sum of their log-likelihood ratios. Every threshold on the sum is an optimal "
            "test."
        ),
        "Theory: all steps are composed exactly to one step with their dimensions and susceptibilities. Queries "
        f"form up to {LARGEST_GROUPS} groups, and the largest K of a group bounds the group from above.",
        "An attack above the bound shows a defect of the training or the accounting, or a violated assumption.",
    ]
    if estimated:
        listed[0] = (
            "Queries are ranked by the sum of their log-likelihood ratios. With background gradients, the ratio is "
            "that of Student's t with an estimated shift. The mean of its exponential over non-members is at most 1."
        )
        listed.append(
            "M = (1 - rho) P + rho (tr P/d) I, with the covariance P of background and release together. rho is "
            "`shrinkage`, with the default of Chen, Wiesel, Eldar and Hero 2010. p-values are exact for every rho."
        )
        listed.append(
            "Susceptibilities are unbiased estimates, truncated at 0. Theory uses upper bounds of the susceptibilities "
            "and of the largest variance. A tenth of 1 - confidence is reserved for these bounds, and the rest for the "
            "bands."
        )
        if noise.is_isotropic:
            listed.append(ADDED_NOISE)
    if noise.is_isotropic:
        listed.append(
            "Theory with noise: N = n + n^2 tau^2/lambda. lambda is the largest variance, or C^2 if that is smaller."
        )
    if one_class:
        listed.append("No ROC curve, because a ROC curve needs members and non-members.")
    if queries > LARGEST_QUERIES:
        listed.append(f"Columns of single queries are omitted above {LARGEST_QUERIES} queries.")
    return tuple(listed)
