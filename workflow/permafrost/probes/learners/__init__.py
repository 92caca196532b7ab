"""Learners that practitioners use, most of them from scikit-learn, on frozen features."""
