"""Perturbing inputs against a classifier: a threat model, attacks within it, and signs that their result is wrong."""
