"""Helpers with outward rounding: logarithms, sums, roots and caps of enclosed numbers (`lower <= truth <= upper`).

`log_lower` and `log_upper` are natural logarithms of bounds. side -1 means the lower bound (rounded down), 1 the upper
bound. u = 2^-53 is the unit of rounding, and an ulp is a unit in the last place.
"""
