"""minGRU that learns to write, in the blocks that it was published in: its gates see the input alone, so that three
layers with feed-forward nets between them stand where one layer of GRU would."""

from neuropil.recipes.rnn import LanguageConfig, RecurrentOptions, recipe_for

RECIPE = recipe_for(RecurrentOptions(model=LanguageConfig(cell="mingru", hidden_size=118, layers=3, residual=True)))
