"""Figures of the first page: Vega-Lite specifications, drawn by a browser and as SVG.

A specification is plain JSON. It uses the data set ``points`` (a row for each backbone and probe),
the data sets that its module names, and the parameters of `look.specification`, so one
specification serves every view of the page.
"""
