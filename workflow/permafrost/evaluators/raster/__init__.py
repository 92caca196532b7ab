"""Evaluation of classified rasters: geodl's assessment metrics, IoU, kappa, area-weighted estimates.

`evaluate` takes files, `evaluate_blocks` arrays in memory, `area_estimates` counts. The same
metrics as torchmetrics classes are in a separate module, because importing torchmetrics is slow.
"""

from permafrost.evaluators.raster.area import AreaEstimates, area_estimates
from permafrost.evaluators.raster.evaluate import evaluate, evaluate_blocks
from permafrost.evaluators.raster.result import RasterEvaluation

__all__ = ["AreaEstimates", "RasterEvaluation", "area_estimates", "evaluate", "evaluate_blocks"]
