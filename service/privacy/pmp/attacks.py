"""What a PMP parameter says about attacks at prior 1/2, the prior that PMP has by construction."""

from __future__ import annotations

import math

from service.privacy.enclosure import Enclosure
from service.privacy.questions.bayes import Odds, posterior_at_log_ratio, widened


def success_bound(epsilon: Enclosure) -> Enclosure:
    """1/(1 + e^-epsilon), epsilon >= 0 in nats: no attack is right about membership with more than this chance.

    The ends are those of epsilon, rounded outwards. Source: Lowy et al. 2023, Lemma 6.
    """
    return posterior_at_log_ratio(Odds.of(0.5), epsilon)


def tight_eta(epsilon: Enclosure) -> Enclosure:
    """tanh(epsilon/2)/2, epsilon >= 0 in nats: the membership inference privacy eta that follows from epsilon-PMP,
    attained by randomised response; (1 - e^-epsilon)/2 of Lemma 13 in Lowy et al. 2023 is larger by the factor
    1 + e^-epsilon. The ends are those of epsilon, rounded outwards.
    """
    return widened(math.tanh(epsilon.lower / 2) / 2, math.tanh(epsilon.upper / 2) / 2, epsilon.evidence, 0.5)
