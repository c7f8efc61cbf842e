"""A long short-term memory that learns to write: a text, a character at a time, and what its gates did meanwhile."""

from neuropil.recipes.rnn import LanguageConfig, RecurrentOptions, recipe_for

RECIPE = recipe_for(RecurrentOptions(model=LanguageConfig(cell="lstm", hidden_size=220)))
