"""Figures of the report, from plain rows.

Lines, dots and bars are Vega-Lite specifications (`chart`), which vl-convert renders as SVG.
Matplotlib draws pictures under `style.drawing`, without a display, and saves them as PNG. The same
numbers give the same bytes.
"""
