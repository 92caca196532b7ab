"""COCO's and LVIS's average precision: matching, curves and their replicates; numpy only."""
