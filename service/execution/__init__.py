"""Execution of computations: result caches, fair queue, worker processes with limits, and the Redis client.

A *computation* is the pure function of a resource (`/v1/bounds`, ...) from a validated request to an answer. Its
*digest* identifies request and engine version. The *cost* of a request is an estimate in units of about 1 us of CPU
time; a *quote* is this cost with the engine that would be used. A *requester* is the group of an authenticated
caller, or a client address. Resources are accounted to requesters.
"""
