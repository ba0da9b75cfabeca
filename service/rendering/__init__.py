"""Representations of responses other than JSON: sentences, documents, tables, charts and the HTML report.

A *run* is the mechanism of a request, for example the steps of a training run. A *bound* is proved, an *estimate* is
not. Texts round every number to the safe side. A *hazard* is a known way in which a run is less private than described.
"""
