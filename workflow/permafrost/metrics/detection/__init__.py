"""COCO's and LVIS's average precision: matching, curves and their resamples; numpy only."""
