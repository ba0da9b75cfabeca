"""Audits: measured or simulated attacks compared with their theory (`POST /v1/audits/...`).

`attack_counts` turns counts of an attack into proved parameters. `glir` computes the gradient likelihood-ratio test on
gradients (GLiR), and `glrt` simulates the generalised likelihood-ratio test.
"""
