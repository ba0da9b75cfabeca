"""Engines without error bounds: central limit (`clt`), `edgeworth` and `saddlepoint`.

They approximate the law of the total privacy loss of a *run*, a list of independent steps with their counts. Their
numbers have asymptotic evidence, and both bounds are the approximation.
"""
