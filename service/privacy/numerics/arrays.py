"""Array types of the numeric core by element type, and named tuples of arrays whose first axis is one index.

The docstrings of functions state the shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
ComplexArray = NDArray[np.complex128]
RecordT = TypeVar("RecordT", bound=tuple[Any, ...])


def taken(record: RecordT, index: Any) -> RecordT:
    """Return a (named) tuple of arrays with the entries `index` of each array.

    Fields may be tuples of arrays themselves, or None, which stays None.
    """
    return _made(record, [_entries(each, index) for each in record])


def joined(records: Sequence[RecordT]) -> RecordT:
    """Return one (named) tuple of arrays, each the concatenation of that array of all `records` along the first axis.

    Fields may be tuples of arrays themselves, but not None.
    """
    columns = zip(*records, strict=True)
    return _made(records[0], [joined(each) if isinstance(each[0], tuple) else np.concatenate(each) for each in columns])


def _entries(field: Any, index: Any) -> Any:
    if field is None:
        return None
    if isinstance(field, tuple):
        return taken(cast("tuple[Any, ...]", field), index)
    return field[index]


def _made(like: RecordT, fields: list[Any]) -> RecordT:
    kind: Any = type(like)
    return cast("RecordT", kind(fields) if kind is tuple else kind(*fields))
