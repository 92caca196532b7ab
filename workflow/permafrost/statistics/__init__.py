"""How certain a number is: intervals, paired comparisons, and aggregation over datasets.

The functions to call are `bootstrap.bootstrap_scores`, `compare.compare`, `gates.score_gates` and
those of `aggregate`; `predictions.predictions_from_table` reads what they need from a prediction table.
"""
