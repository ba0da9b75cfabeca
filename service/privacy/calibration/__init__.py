"""Searches of a calibration: the smallest number at which a condition holds, and which way privacy moves with a number.

A *number* is one parameter of a request. A *coordinate* is its logarithm with a sign. The *height* of an evaluation is
about positive where the condition does not hold and negative where it holds. A *bracket* is a pair of numbers around
the crossing.
"""
