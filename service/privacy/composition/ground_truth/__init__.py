"""Engine `ground_truth`: 15 to 50 proved decimal digits, in ball arithmetic.

A *ball* is a midpoint with a radius and contains the exact number. A computation in doubles guides each search, and
balls prove the result.
"""
