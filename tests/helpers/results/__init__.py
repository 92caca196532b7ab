"""Cards, predictions, scores and plans in the shape that the stages write."""
