"""Every picture of the service as a Vega-Lite spec: the page, notebooks and reports draw the same one."""
