"""Weights: files read without running code, published ones found or downloaded, pickles converted."""
