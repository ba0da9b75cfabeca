"""Side-by-side measurements: `make bench` runs all of them and writes RESULTS.md.

`numbers/` the numeric core in this process; `engines/` engines by name, and memory; `peers/` other packages, each
in a process of its own; `sweeps/` random cases by two engines; `http/` the service and a minimal application, loaded
from this process. A subject returns a `Section`: tables, and what is within reach.
"""
