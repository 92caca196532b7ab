"""Scores over datasets and seeds: means, ranks, Pareto fronts."""
