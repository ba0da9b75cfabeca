"""`python -m benchmarks.sweeps [points of the box] [mechanisms] [runs] [seeds] [calibrations]`: run the parts and
print.
"""

from __future__ import annotations

import sys

from benchmarks import sweeps
from benchmarks.report import reach_table

if __name__ == "__main__":
    section = sweeps.measure(*map(int, sys.argv[1:]))
    print(reach_table(section.reaches), section.markdown(), sep="\n\n")
