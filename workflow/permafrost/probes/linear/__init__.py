"""The linear probe: logistic regression over a grid of C, chosen on validation."""

from permafrost.probes.linear.fit import LinearFit, LinearSettings, fit_linear

__all__ = ["LinearFit", "LinearSettings", "fit_linear"]
