"""Numerical building blocks with error bounds: root finders, special functions, confidence bounds and counted work.

u = 2^-53 is the unit of rounding of doubles. A relative error of 3 u means at most three roundings. A *ball* is a
midpoint with a radius. A *bracket* is an interval that contains a root. *Work* is counted in microseconds of CPU time,
roughly.
"""
