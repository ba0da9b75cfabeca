"""Side-by-side measurements: `make bench` runs all of them and writes RESULTS.md.

`numbers/` the numeric core in this process; `engines/` engines by name, and memory; `peers/` other packages, each
in a process of its own; `sweeps/` random cases by two engines; `http/` the service and a minimal application, loaded
from this process. A subject returns a `Section`: tables, and what is within reach.
"""

from __future__ import annotations

import os
from typing import Final

THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Numeric libraries read these where they are loaded: before anything else of a measurement is. With more threads, which
# wait for each other busily, a sum of a few thousand products takes milliseconds of CPU on a machine that is shared.
# Workers of the service have one thread too.
for _variable in THREAD_VARIABLES:
    os.environ[_variable] = "1"
