"""Examination of a deployment: settings, secrets, Redis, clock, disk, folder, versions, numbers, callers."""
