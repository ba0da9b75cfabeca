"""Capacity needed for a load: machines, queue and Redis, by calculation and by a simulation of the queue."""
