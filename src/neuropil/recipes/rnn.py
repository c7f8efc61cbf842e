"""A recurrent network that learns to write: the plain one, which has nothing but its state and a matrix that turns it."""

from neuropil.tasks.language_modelling.recurrent import recipe_for

RECIPE = recipe_for("rnn", hidden_size=444)
