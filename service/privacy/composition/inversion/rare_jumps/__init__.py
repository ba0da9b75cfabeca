"""Tiny deltas of runs in which few steps sample the record, divided by the number of steps with a large loss.

`one_jump.py` adds up the parts. `core_law.py`, `core_tails.py` and `core_contour.py` treat the steps without a large
loss (the *core*), and `jump_law.py` treats the step with the large loss (the *jump*). `roots.py` finds epsilon at a
tiny delta.
"""
