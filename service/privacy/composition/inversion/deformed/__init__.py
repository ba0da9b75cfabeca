"""Deformed contours: curves in the complex plane along which inversion integrals decay fast.

They serve runs (lists of steps) of few kinds of sampled Gaussian steps with little noise, where integrals along
vertical lines (straight contours) give wide enclosures. A *majorant* is an upper bound of the modulus of a
moment-generating function.
"""
