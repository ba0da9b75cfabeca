"""Choice of the engine for a mechanism, with its options and its cost.

A *plan* is the chosen engine with its grid, before any evaluation. A *cost model* gives the computing time in
microseconds of CPU time. A *bracket* is a pair of bounds from different theorems: an upper bound, and a lower bound
that some data sets attain.
"""
