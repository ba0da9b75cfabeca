"""Command line `privacy-bounds`: commands that serve, answer requests without HTTP, draw charts and manage jobs.

A *resource* is one kind of request, named by its HTTP path (`/v1/bounds`). Each resource has a command of the same
name. `parser.py` declares the commands and `main.py` runs them. `in_process.py` computes without a server.
"""
