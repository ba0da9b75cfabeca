"""Array types of the numeric core by element type. The docstrings of functions state the shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
ComplexArray = NDArray[np.complex128]
