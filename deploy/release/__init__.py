"""Tools of a release: packages, bill of materials, provenance, licences, audit of dependencies, and a trial.

`docs/guide/releases.md` describes them. `make release` runs them in order.
"""
