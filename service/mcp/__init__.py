"""Server of the Model Context Protocol (MCP), with which assistants call the service as tools.

A *tool* is a resource of the service with a compact schema; its answer is text with both bounds of every number,
assumptions and hazards, beside the JSON of the service. A *document* is a page of the guide, the catalogue or the
errata, which a client reads by address. Computations use the same limits, worker processes and caches as over HTTP.
"""
