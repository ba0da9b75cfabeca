"""Engine `contour`: certified trade-off curves of runs of any length, by contour inversion.

A *run* is a list of independent steps with their counts, and S is the sum of their privacy losses. K(z) = ln E0 e^{zS}
is integrated along a line or curve in the complex plane (*contour*). The real number at which the contour crosses the
axis is its *tilt*. The threshold c of a test S > c is in nats. Each error (quadrature, truncation, rounding) has a
proved bound.
"""
