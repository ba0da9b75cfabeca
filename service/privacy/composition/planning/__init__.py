"""Choice of the engine for a mechanism, with its options and its cost.

A *plan* is the chosen engine with its grid, before any evaluation. A *cost model* gives the computing time in
microseconds of CPU time. A *bracket* is a run that is known from two sides: by an upper bound, and by steps that are
attained.
"""
