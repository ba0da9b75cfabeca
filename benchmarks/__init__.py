"""Side-by-side measurements: `make bench` runs all of them and writes RESULTS.md.

`numbers/` measures the numeric core in this process. `engines/` measures single engines, and memory. `peers/` runs
other packages, each in a process of its own. `sweeps/` compares two engines on random cases. `http/` loads the service
and a minimal application from this process. Each subject returns a `Section` with tables and the reaches that it meets.
"""

from __future__ import annotations

import os
from typing import Final

THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Numeric libraries read these variables at import, so they are set before any other import. Several threads wait for
# each other in busy loops: on a shared machine a sum of a few thousand products then takes milliseconds of CPU. Workers
# of the service also use one thread.
for _variable in THREAD_VARIABLES:
    os.environ[_variable] = "1"
