"""Bounds for mixtures whose record is rarely sampled, by the number of steps that sample it."""
