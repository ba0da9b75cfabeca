"""`python -m benchmarks.sweeps [points of the box] [mechanisms] [mixed runs] [seeds]`: parts of the sweeps, printed."""

from __future__ import annotations

import os
import sys

from benchmarks.report import reach_table

if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    from benchmarks import sweeps

    section = sweeps.measure(*map(int, sys.argv[1:]))
    print(reach_table(section.reaches), section.markdown(), sep="\n\n")
