"""Reader for a rho of zero-concentrated differential privacy, as SmartNoise, dpsynth and OpenDP hold it.

SmartNoise synthesizers and dpsynth keep `rho` beside the epsilon and delta from which it was computed. OpenDP states a
privacy map as a `measure` with its distance `d_out`: `ZeroConcentratedDivergence` with rho, `MaxDivergence` with
epsilon, `Approximate(MaxDivergence)` (before 0.12 `FixedSmoothedMaxDivergence`) with the pair (epsilon, delta), and
`Approximate(ZeroConcentratedDivergence)` with the pair (rho, delta).
"""

from __future__ import annotations

from typing import Final

from service.importers.reading import DraftSpec, ImportedRun, SourceValue

DESCRIPTION: Final = "zcdp (an object with rho, or with measure and d_out of OpenDP)"
DROPPED: Final = {
    "epsilon": "epsilon and delta follow from rho: ask for them. The mechanism is described by rho alone.",
    "delta": 'delta is part of a question: {"type": "epsilon", "delta": ...}.',
    "xi": "xi = 0 adds nothing.",
}
MEASURES: Final = {
    "ZeroConcentratedDivergence": ("zcdp", "rho"),
    "MaxDivergence": ("pure_dp", "epsilon"),
    "Approximate(MaxDivergence)": ("approximate_dp", "epsilon"),
    "FixedSmoothedMaxDivergence": ("approximate_dp", "epsilon"),
    "Approximate(ZeroConcentratedDivergence)": ("composed", "rho"),
}
OPENDP: Final = ("measure", "d_out")


def matches(state: SourceValue) -> bool:
    """Return whether a state (JSON value) has a rho of zero-concentrated DP, or a measure of OpenDP."""
    sent = state.as_object
    return ("rho" in sent and "type" not in sent and "class_name" not in sent) or set(OPENDP) <= sent.keys()


def read_state(state: SourceValue) -> ImportedRun:
    """Return the class of all mechanisms with the guarantee in a state. Raise ValidationError.

    The guarantee is zero-concentrated DP, or with a measure of OpenDP also pure or approximate DP, or approximate
    zero-concentrated DP.
    """
    if set(OPENDP) & state.as_object.keys():
        return _opendp(state)
    members = state.members(("rho",), tuple(DROPPED))
    if "xi" in members and members["xi"].number(0.0, 0.0) != 0:
        members["xi"].reject("Must be 0.")
    notes = tuple(sentence for name, sentence in DROPPED.items() if name in members and name != "xi")
    return ImportedRun(DraftSpec(state, type="zcdp", rho=members["rho"]), notes=notes)


def _opendp(state: SourceValue) -> ImportedRun:
    members = state.members(OPENDP)
    kind, field = MEASURES[members["measure"].one_of(MEASURES)]
    distance = members["d_out"]
    if kind in ("zcdp", "pure_dp"):
        return ImportedRun(DraftSpec(state, type=kind, **{field: distance}))
    pair = distance.items()
    if len(pair) != 2:
        distance.reject(f"Must be a pair [{field}, delta].")
    if kind == "approximate_dp":
        return ImportedRun(DraftSpec(state, type=kind, epsilon=pair[0], delta=pair[1]))
    # delta-approximate zCDP: a rho-zCDP mechanism beside an event of probability delta that may reveal everything.
    parts = [
        DraftSpec(state, type="zcdp", rho=pair[0]),
        DraftSpec(state, type="approximate_dp", epsilon=0.0, delta=pair[1]),
    ]
    return ImportedRun(DraftSpec(state, type="composed", mechanisms=parts))
