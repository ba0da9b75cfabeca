"""Number of a published script (wangsw/PrivacyAmplification) for shuffled k-ary randomised responses."""

from __future__ import annotations

import math

Counts = tuple[int, ...]


def script_delta(reports: int, options: int, epsilon: float, at: float) -> float:
    """Return delta of shuffled k-ary responses as a published script computes it.

    The script gives no outcome to a report of a third value. `reports` is the number of reports, `options` is k,
    `epsilon` is that of one report, and `at` is the epsilon of delta.
    """
    p, e = math.exp(epsilon), math.exp(at)
    c = 1 / (p + options - 1)
    masses: dict[Counts, tuple[float, float]] = {}
    for hidden in range(reports):
        likely = math.comb(reports - 1, hidden) * (2 * c) ** hidden * (1 - 2 * c) ** (reports - 1 - hidden)
        for a in range(hidden + 1):
            here = likely * math.comb(hidden, a) / 2**hidden
            rest = 1 - c - p * c
            for counts, present, absent in (
                ((a + 1, hidden - a), p * c, c),
                ((a, hidden - a + 1), c, p * c),
                ((a, hidden - a), rest, rest),
            ):
                known = masses.get(counts, (0.0, 0.0))
                masses[counts] = known[0] + here * present, known[1] + here * absent
    return sum(max(present - e * absent, 0.0) for present, absent in masses.values())
