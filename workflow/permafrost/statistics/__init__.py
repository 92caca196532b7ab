"""Uncertainty of scores: intervals, paired comparisons, and aggregation over datasets.

Main functions: `scores.bootstrap.bootstrap_scores`, `scores.compare.compare`,
`scores.gates.score_gates` and `across_datasets.standings_table.build_standings`.
`predictions.reading.predictions_from_table` reads their input from a prediction table.
"""
