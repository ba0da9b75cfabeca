"""Events of dp_accounting with discrete outputs: randomised response and discrete Laplace noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from service.importers.dp_accounting_notes import DISCRETE, RESPONSE, ImportNotes
from service.importers.reading import DraftSpec, SourceValue

ROUND_UP_FACTOR: Final = 1 + 2.0**-48
"""Factor that exceeds the rounding errors of a few operations in doubles."""

LARGEST_SHIFT: Final = 10_000
"""Largest sensitivity of the mechanism `discrete_laplace`."""
SCALES: Final = (1e-3, 1e9)
"""Smallest and largest scale of the mechanism `discrete_laplace`."""


def randomized_response(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    """Return k-ary randomised response with epsilon = ln(1 + k (1 - p)/p).

    For a record that is replaced by an empty one, return pure DP with this epsilon, and for one bucket, which reveals
    nothing, pure DP with epsilon 0. Here p is the noise parameter and k the number of buckets. The true bucket is
    reported with probability 1 - p + p/k, every other bucket with probability p/k. Rounding epsilon up is safe: a
    report with the larger epsilon can be perturbed further to a report with the smaller epsilon. `node` is the event,
    and `fields` its fields by name. Facts for the reader are added to `notes`.
    """
    noise, buckets = fields["noise_parameter"].number(1e-290, 1.0), fields["num_buckets"].integer(1, 10**12)
    notes.add(RESPONSE)
    notes.needs_replacement = True
    epsilon = math.log1p(buckets * (1 - noise) / noise) * ROUND_UP_FACTOR if buckets > 1 else 0.0
    located = SourceValue(epsilon, fields["noise_parameter"].location)
    if buckets == 1 or notes.relation == "zero_out":
        return DraftSpec(node, type="pure_dp", epsilon=located)
    return DraftSpec(node, type="randomized_response", epsilon=located, options=fields["num_buckets"])


def discrete_laplace(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    """Return discrete Laplace noise of scale 1/noise_parameter, or pure DP beyond its limits.

    The limits are a scale from 1e-3 to 1e9 and a shift of 10 000; pure DP has epsilon noise_parameter times the shift.
    Rounding the scale down is safe: further independent noise turns discrete Laplace noise into noise of any larger
    scale. A replaced record moves the query by up to twice the sensitivity of an added or removed record. `node` is the
    event, and `fields` its fields by name. Facts for the reader are added to `notes`.
    """
    # At 0 noise would be spread over all integers, which no law is: the library counts it as no privacy at all.
    parameter, sensitivity = fields["noise_parameter"].number(1e-290, 1e6), fields["sensitivity"].integer(1, 10**12)
    notes.add(DISCRETE)
    shift = 2 * sensitivity if notes.relation == "replace_one" else sensitivity
    location = fields["noise_parameter"].location
    scale = 1 / parameter
    if Fraction(scale) * Fraction(parameter) > 1:
        scale = math.nextafter(scale, 0.0)
    if shift <= LARGEST_SHIFT and SCALES[0] <= scale <= SCALES[1]:
        moved = SourceValue(shift, fields["sensitivity"].location)
        return DraftSpec(node, type="discrete_laplace", scale=SourceValue(scale, location), sensitivity=moved)
    exact = parameter if shift == 1 else parameter * shift * ROUND_UP_FACTOR
    return DraftSpec(node, type="pure_dp", epsilon=SourceValue(exact, location))
