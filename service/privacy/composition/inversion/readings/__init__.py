"""Evaluation of numbers on one inversion contour: points of the trade-off curve, delta, and thresholds (roots).

A contour gives three integrals at any threshold c: both tails of the total privacy loss, and delta(c). Results are
enclosures of natural logarithms.
"""
