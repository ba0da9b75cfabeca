"""Sentences about the guarantee of a run. Every text of the service about a guarantee is built here."""
