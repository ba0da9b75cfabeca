"""Tiny deltas of rare runs, divided by the number of steps with a large loss.

`one_jump.py` adds up the parts. `core_law.py`, `core_tails.py` and `core_contour.py` treat the other steps, and
`jump_law.py` treats the step with the large loss. `roots.py` finds epsilon at a tiny delta.
"""
