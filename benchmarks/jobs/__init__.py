"""Jobs on real processes: what a piece costs in a cluster, how workers add up, what a large job leaves of the rest.

`python -m benchmarks.jobs` prints each part; `python -m benchmarks.jobs pieces` only that one. Rates are by the clock:
on a machine that does other things, ratios of one run are what counts.
"""
