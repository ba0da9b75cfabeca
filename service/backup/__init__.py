"""Backup and restore of the data folder: jobs with their results, API keys, and quarantined results."""
