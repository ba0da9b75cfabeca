"""Representations of responses beside JSON: sentences, documents, tables, charts and the HTML report."""
