"""Curves that are made of other curves: minima and maxima, brackets, second engines and symmetrised curves.

A *bracket* is a curve that is known from two sides. A curve is *easier* if it gives an attacker more power. The
*profile* of a curve is delta(eps), and its *envelope* the largest convex function below. A *second engine* serves where
the first one is inaccurate.
"""
