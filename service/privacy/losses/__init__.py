"""Laws of the privacy loss L = ln dP1/dP0 (nats) of a step, in double precision without error bounds.

P0 is the law of the release without the record, P1 the law with it. The *cumulant generating function* is K(s) = ln E0
e^{sL}, and s is a real *tilt*. Engines that approximate or sample use these laws; certified engines have their own.
"""
