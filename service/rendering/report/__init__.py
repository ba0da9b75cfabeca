"""Assessments as an HTML page to read, to print and to archive."""
