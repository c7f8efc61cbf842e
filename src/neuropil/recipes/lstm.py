"""A long short-term memory that learns to write: a text, a character at a time, and what its gates did meanwhile."""

from neuropil.recipes.rnn import recipe_for

RECIPE = recipe_for("lstm", hidden_size=220)
