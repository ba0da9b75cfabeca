"""Tiny deltas of runs of equal sampled Gaussian steps, far out in the tail of the total privacy loss.

A *jump* is a step with an unusually large loss. Far out one rare jump exceeds epsilon, and the losses of all other
steps (the *core*) hardly matter. Every error has a proved bound.
"""
