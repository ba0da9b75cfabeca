"""Named tuples of arrays: entries and concatenations of every array, also of nested ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.privacy.numerics.arrays import FloatArray, joined, taken


class _Inner(NamedTuple):
    values: FloatArray
    missing: None = None


class _Outer(NamedTuple):
    rows: FloatArray
    inner: _Inner
    listed: tuple[FloatArray, ...]


def _outer(start: float) -> _Outer:
    values = start + np.arange(3.0)
    return _Outer(np.outer(values, [1.0, 2.0]), _Inner(values), (values, -values))


def test_entries_are_taken_from_every_array() -> None:
    found = taken(_outer(1.0), np.array([2, 0]))
    assert found.rows.tolist() == [[3.0, 6.0], [1.0, 2.0]]
    assert found.inner == (found.inner.values, None)
    assert found.inner.values.tolist() == found.listed[0].tolist() == [3.0, 1.0]
    assert taken(_outer(1.0), slice(1, 2)).listed[1].tolist() == [-2.0]


def test_arrays_are_joined_along_first_axis() -> None:
    parts = [(np.arange(2.0), (np.zeros((1, 2)),)), (np.arange(3.0), (np.ones((2, 2)),))]
    values, (rows,) = joined(parts)
    assert values.tolist() == [0.0, 1.0, 0.0, 1.0, 2.0]
    assert rows.sum(axis=1).tolist() == [0.0, 2.0, 2.0]
