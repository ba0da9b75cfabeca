"""Who may call the service: callers, their scopes, API keys, signed tokens, and the scope that each route needs."""
