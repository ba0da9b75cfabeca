"""Engine `contour`: certified trade-off curves of runs of any length, by contour inversion.

A *run* is a list of independent steps with their counts. S is the privacy loss of the run in nats, the sum of the
losses of its steps. P0 is the law of the output without the record (hypothesis H0), and P1 is the law with the record
(H1). E0 and E1 are their expectations.

The log-moment function K(z) = ln E0 e^{zS} is integrated along a line or curve in the complex plane (*contour*). The
real number at which the contour crosses the axis is its *tilt*. The threshold c of a test S > c is in nats. Each error
(quadrature, truncation, rounding) has a proved bound.
"""
