"""Charts as Vega-Lite specifications. The page, notebooks and reports show the same specification."""
