"""Figures of the report, one file each; all take plain rows and return a matplotlib figure.

Every figure is drawn under `style.drawing`, without a display, and saved by `style.save_figure`, so
that the same numbers give the same bytes.
"""
