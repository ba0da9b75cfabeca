"""Mechanisms whose privacy loss has finitely many values, or values that can be listed.

`atomic_step.py` has their resolved steps: a law of the loss, from which curves and compositions follow. `selection.py`
and `few_attacks.py` bound choices among candidates, and `noise.py` and `local.py` share premises and checks. The other
files have one mechanism each. Local mechanisms run on the device of a person, and their reports replace each other.
"""
