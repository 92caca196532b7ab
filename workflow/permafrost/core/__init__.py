"""Foundation of all packages: errors, fingerprints, atomic outputs, stores and tables."""
