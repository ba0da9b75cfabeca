"""Responses as tables: CSV, JSON lines, and aligned text for a terminal."""
