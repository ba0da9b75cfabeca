"""HTTP interface: routes, content negotiation, limits on connections and bodies, and the published OpenAPI document.

A *resource* is one kind of request, named by its path (`/v1/bounds`, `/v1/sweeps`). Its *computation* is the pure
function from a validated request to an answer. A *requester* is the group of an authenticated caller, or a client
address (IPv6: a /64 network). Limits are per requester. A *rendering* is an answer in another media type than JSON.
"""
