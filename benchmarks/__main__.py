"""`make bench`: run every measurement, print the results and write RESULTS.md.

`python -m benchmarks numbers http` runs the named parts and only prints them. The exit status is nonzero if two
enclosures of the same number do not meet.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
SUBJECTS: Final = ("numbers", "engines", "peers", "sweeps", "prices", "http")
INTRODUCTION: Final = """\
# Measured

Written by `make bench`. Times are CPU seconds of one thread unless said otherwise: medians, measured in one run, so
that ratios hold on a machine that is shared. A run of DP-SGD is (noise multiplier, sampling rate, steps).
"""


def main(chosen: list[str]) -> int:
    import importlib

    from benchmarks import machine
    from benchmarks.report import Section, reach_table

    started = time.monotonic()
    where = machine.description()
    sections: list[Section] = []
    for name in chosen or SUBJECTS:
        print(f"measuring {name} ...", file=sys.stderr)
        sections.append(importlib.import_module(f"benchmarks.{name}").measure())
    reaches = [reach for section in sections for reach in section.reaches]
    met = f"{sum(reach.met for reach in reaches)} of {len(reaches)} met; {time.monotonic() - started:.0f} s in all."
    parts = [INTRODUCTION + "\n" + where, "## Reach\n\n" + reach_table(reaches) + "\n\n" + met]
    text = "\n\n".join([*parts, *(section.markdown() for section in sections)]) + "\n"
    if not chosen:
        RESULTS.write_text(text)
    print(text if chosen else "\n\n".join(parts))
    return int(any(reach.required and not reach.met for reach in reaches))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
