"""Gated recurrent units that learn to write: a text, a character at a time, with a gate less than a long short-term
memory."""

from neuropil.recipes.rnn import recipe_for

RECIPE = recipe_for("gru", hidden_size=256)
