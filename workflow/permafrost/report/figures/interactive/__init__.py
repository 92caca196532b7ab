"""Figures of the first page: specifications in Vega-Lite, a module for each, drawn by a browser and as SVG.

A specification is plain JSON. It reads the data set ``points`` (a row for each backbone and probe) and what else its
module names, and the parameters of `look.specification`; so the same one serves every view of the page.
"""
