"""Jobs of a cluster: stored in Redis and computed by workers that Celery messages wake.

A *chunk* is a range of consecutive points of a job. A *claim* is the right of one worker to compute a chunk for some
seconds. All records in Redis are signed with a shared key.
"""
