"""Backup and restore of the data folder: jobs with their results, and API keys."""
