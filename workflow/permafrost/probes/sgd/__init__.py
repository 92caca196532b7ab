"""Small probes trained on mini-batches by stochastic gradient descent, in NumPy."""
