"""Jobs on real processes: cost of a chunk in a cluster, scaling with workers, and closed forms beside a large job.

`python -m benchmarks.jobs` prints every part; `python -m benchmarks.jobs pieces` prints only that part. Rates are by
wall clock. On a busy machine only the ratios within one run are meaningful.
"""
