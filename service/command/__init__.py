"""Command line: commands that serve, answer requests without HTTP, draw charts and manage jobs."""
