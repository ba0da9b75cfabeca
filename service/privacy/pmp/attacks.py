"""Attack bounds that follow from a PMP parameter at prior 1/2, the prior of the definition of PMP.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import math

from service.privacy.enclosure import Enclosure
from service.privacy.questions.bayes import Odds, posterior_at_log_ratio, widened


def success_bound(epsilon: Enclosure) -> Enclosure:
    """Return 1/(1 + e^-epsilon), an upper bound of the probability that a membership attack is correct.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Parameters
    ----------
    epsilon : Enclosure
        PMP parameter >= 0, nats.

    Returns
    -------
    Enclosure
        The bounds follow from those of epsilon, rounded outwards.

    References
    ----------
    Lowy et al. 2023, Lemma 6.
    """
    return posterior_at_log_ratio(Odds.of(0.5), epsilon)


def tight_eta(epsilon: Enclosure) -> Enclosure:
    """Return tanh(epsilon/2)/2, the membership inference privacy eta that follows from epsilon-PMP.

    PMP is practical membership privacy: the attacker does not know which records were drawn.

    Parameters
    ----------
    epsilon : Enclosure
        PMP parameter >= 0, nats.

    Returns
    -------
    Enclosure
        eta. The bounds follow from those of epsilon, rounded outwards.

    Notes
    -----
    Randomised response attains this eta. The value (1 - e^-epsilon)/2 of Lemma 13 in Lowy et al. 2023 is larger by the
    factor 1 + e^-epsilon.
    """
    return widened(math.tanh(epsilon.lower / 2) / 2, math.tanh(epsilon.upper / 2) / 2, epsilon.evidence, 0.5)
