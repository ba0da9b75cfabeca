"""Examination of a deployment: settings, secrets, Redis, clock, disk, data folder, versions and numbers."""
