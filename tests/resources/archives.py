"""Gradients for audits, as JSON and as archives."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def gradients(dimension: int = 3, queries: int = 8, steps: int = 2, background: int = 12) -> Arrays:
    """Return the arrays of a small audit by the gradient likelihood ratio test (GLiR), by name."""
    generator = np.random.Generator(np.random.PCG64(4))
    arrays: Arrays = {"batch_size": np.array(20), "members": np.arange(queries) < queries // 2}
    for step in range(steps):
        arrays[f"steps.{step}.mean_gradient"] = generator.standard_normal(dimension) / 4
        arrays[f"steps.{step}.query_gradients"] = generator.standard_normal((queries, dimension))
        arrays[f"steps.{step}.background_gradients"] = generator.standard_normal((background, dimension))
    return arrays


def as_json(arrays: Arrays) -> dict[str, Any]:
    """Return the audit with these arrays as a JSON body."""
    body: dict[str, Any] = {}
    steps: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        if name.startswith("steps."):
            _, number, field = name.split(".")
            steps.setdefault(int(number), {})[field] = array.tolist()
        else:
            body[name] = array.tolist()
    return {**body, "steps": [steps[number] for number in sorted(steps)]}


def encoded(arrays: Arrays) -> bytes:
    """Return the JSON body in bytes."""
    return json.dumps(as_json(arrays)).encode()


def archived(arrays: Arrays, *, compressed: bool = False) -> bytes:
    """Return the audit with these arrays as an .npz archive."""
    file = io.BytesIO()
    if compressed:
        np.savez_compressed(file, allow_pickle=True, **arrays)
    else:
        np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()
