"""Jobs: requests that are accepted now and computed later, by a local scheduler or by a cluster of workers.

A job has one or more *points* (a sweep has one for each combination of numbers). A *chunk* is a range of consecutive
points, which a worker process computes in one piece. A worker *claims* a chunk for some seconds. The *generation* of a
job counts how often another engine version restarted it. `local/` stores jobs in an SQLite file, `celery/` in Redis.
"""
