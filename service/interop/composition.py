"""Compositions of foreign events, as one run where they are one."""

from __future__ import annotations

from itertools import groupby

from service.interop.phases import Phase, run_of
from service.interop.reading import Node, Spec, plain


def repeated(source: Node, inner: Spec, count: Node) -> Spec:
    """`count` applications: DP-SGD where a step of it is repeated."""
    step = _step(inner)
    if step is not None:
        return Spec(source, type="dpsgd", noise_multiplier=step[0], sample_rate=step[1], steps=count)
    if inner["type"] == "dpsgd" and inner["steps"] == 1:  # a batch of a fixed size
        return Spec(source, **{**inner, "steps": count})
    return Spec(source, type="repeated", mechanism=inner, steps=count)


def composed(source: Node, parts: list[Spec]) -> Spec | None:
    """All of them: neighbours that are phases of DP-SGD are one run, equal ones are repeated. None where there is
    nothing.
    """
    made: list[Spec] = []
    for is_phase, neighbours in groupby(parts, key=lambda part: _phase(part) is not None):
        group = list(neighbours)
        if len(group) == 1:
            made += group
        elif is_phase:
            phases = [phase for part in group if (phase := _phase(part)) is not None]
            made.append(run_of(phases, source, lambda nodes, column: nodes[column].place))
        else:
            for _, alike in groupby(group, key=plain):
                equal = list(alike)
                made.append(equal[0] if len(equal) == 1 else repeated(source, equal[0], Node(len(equal), source.place)))
    if len(made) <= 1:
        return made[0] if made else None
    return Spec(source, type="composed", mechanisms=made)


def _step(part: Spec) -> tuple[Node, Node] | None:
    """Noise and rate of a Poisson-sampled Gaussian step."""
    if part["type"] == "poisson_sampled" and part["mechanism"]["type"] == "gaussian":
        return part["mechanism"]["noise_multiplier"], part["sample_rate"]
    return None


def _phase(part: Spec) -> Phase | None:
    """A phase of DP-SGD on Poisson samples."""
    step = _step(part)
    if step is not None:
        return _of_nodes(*step, Node(1, part.source.place))
    if part["type"] == "dpsgd" and "sampling" not in part and isinstance(part["steps"], Node):
        return _of_nodes(part["noise_multiplier"], part["sample_rate"], part["steps"])
    return None


def _of_nodes(*nodes: Node) -> Phase:
    noise, rate, steps = nodes
    return Phase(noise.value, rate.value, steps.value, key=nodes)
