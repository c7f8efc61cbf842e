"""Gated recurrent units that learn to write: a text, a character at a time, with a gate less than a long short-term
memory, in the convention of PyTorch or of the first paper, with one gate or two."""

from neuropil.models.gru import GRUConvention
from neuropil.recipes.rnn import LanguageConfig, RecurrentOptions, recipe_for


class GRULanguageConfig(GRUConvention, LanguageConfig):
    """Of the fields that both have, the convention's are options."""


class GRUOptions(RecurrentOptions):
    model: GRULanguageConfig = GRULanguageConfig(cell="gru", hidden_size=256)


RECIPE = recipe_for(GRUOptions())
