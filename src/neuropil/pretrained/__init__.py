"""Weights of other libraries, both ways: one file for each family, with a map of names."""
