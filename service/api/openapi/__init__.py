"""Published OpenAPI document: components, headers, and the document itself."""
