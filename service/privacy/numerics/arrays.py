"""The arrays of the numeric core, by what is in them. Shapes are said where they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
ComplexArray = NDArray[np.complex128]
