"""Jobs of a single instance: stored in an SQLite file and computed by processes of the service itself.

A *chunk* is a range of consecutive points of a job. A *claim* is the right of one worker to compute a chunk for some
seconds. Processes with one data folder share the file, and one of them computes.
"""
