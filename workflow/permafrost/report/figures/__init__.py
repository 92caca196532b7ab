"""Figures of the report, from plain rows.

Lines, dots and bars are specifications in Vega-Lite (`chart`), which vl-convert draws as SVG. Pictures are drawn by
matplotlib under `style.drawing`, without a display, and saved as PNG. The same numbers give the same bytes.
"""
