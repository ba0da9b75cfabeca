"""Certificates: numbers that the independent checker proves."""
