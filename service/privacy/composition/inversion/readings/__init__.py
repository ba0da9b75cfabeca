"""Evaluation of numbers on one inversion contour: points of the trade-off curve, delta, and thresholds (roots).

A contour is a path of an inversion integral in the complex plane. It gives three integrals at any threshold c in nats:
the probabilities that the total privacy loss exceeds c under each hypothesis, and the profile delta(c). Results are
enclosures of natural logarithms.
"""
