"""Compositions of events of other libraries. DP-SGD steps that belong together become one training run."""

from __future__ import annotations

from itertools import groupby

from service.importers.phases import Phase, merge_phases
from service.importers.reading import DraftSpec, SourceValue, strip_locations


def repeat(source: SourceValue, inner: DraftSpec, count: SourceValue) -> DraftSpec:
    """Return the draft of `count` applications of the mechanism `inner`.

    The result is a DP-SGD run if the mechanism is a DP-SGD step. `source` is the part of the imported document to which
    errors about the repetition refer.
    """
    step = _noise_and_rate(inner)
    if step is not None:
        return DraftSpec(source, type="dpsgd", noise_multiplier=step[0], sample_rate=step[1], steps=count)
    if inner["type"] == "dpsgd" and inner["steps"] == 1:  # a batch of a fixed size
        return DraftSpec(source, **{**inner, "steps": count})
    return DraftSpec(source, type="repeated", mechanism=inner, steps=count)


def compose(source: SourceValue, parts: list[DraftSpec]) -> DraftSpec | None:
    """Compose drafts of mechanisms in order, or return None for an empty list.

    A single part is returned unchanged. Adjacent phases of DP-SGD (equal steps on Poisson samples) become one run.
    Adjacent equal parts become one repeated part. `source` is the imported value to which errors about the whole
    composition refer.
    """
    made: list[DraftSpec] = []
    for is_phase, neighbours in groupby(parts, key=lambda part: _phase(part) is not None):
        group = list(neighbours)
        if len(group) == 1:
            made += group
        elif is_phase:
            phases = [phase for part in group if (phase := _phase(part)) is not None]
            made.append(merge_phases(phases, source, lambda nodes, column: nodes[column].location))
        else:
            for _, alike in groupby(group, key=strip_locations):
                equal = list(alike)
                made.append(
                    equal[0] if len(equal) == 1 else repeat(source, equal[0], SourceValue(len(equal), source.location))
                )
    if len(made) <= 1:
        return made[0] if made else None
    return DraftSpec(source, type="composed", mechanisms=made)


def _noise_and_rate(part: DraftSpec) -> tuple[SourceValue, SourceValue] | None:
    if part["type"] == "poisson_sampled" and part["mechanism"]["type"] == "gaussian":
        return part["mechanism"]["noise_multiplier"], part["sample_rate"]
    return None


def _phase(part: DraftSpec) -> Phase | None:
    step = _noise_and_rate(part)
    if step is not None:
        return _phase_from(*step, SourceValue(1, part.source.location))
    if part["type"] == "dpsgd" and "sampling" not in part and isinstance(part["steps"], SourceValue):
        return _phase_from(part["noise_multiplier"], part["sample_rate"], part["steps"])
    return None


def _phase_from(*nodes: SourceValue) -> Phase:
    noise, rate, steps = nodes
    return Phase(noise.value, rate.value, steps.value, key=nodes)
