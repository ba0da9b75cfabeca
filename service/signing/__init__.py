"""Signed statements: keys, envelopes, statements, reports and their verification. No HTTP, and no numbers.

A *statement* (in-toto v1) says which answer belongs to which request. An *envelope* (DSSE) carries a statement and its
signature (Ed25519). Reading is strict: one statement has exactly one sequence of bytes.
"""
