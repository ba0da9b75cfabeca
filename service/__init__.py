"""REST service for certified privacy bounds, with the command line `privacy-bounds`.

`privacy` is the numeric core. `resources` maps requests to answers, `execution` and `jobs` run them, and `api`,
`command` and `server` offer them over HTTP and in a terminal. `rendering` turns answers into sentences, tables and
charts.
"""
