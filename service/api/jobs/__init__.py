"""Jobs over HTTP: routes, representation, `Prefer: respond-async`, and streams of events and results."""
