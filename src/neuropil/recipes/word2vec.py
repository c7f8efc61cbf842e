"""word2vec that learns word vectors from docstrings of installed libraries or the user's texts, by skip-gram or CBOW
with negative sampling."""

import dataclasses

from neuropil.config import Config
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.models.word2vec.learner import NegativeSamplingConfig
from neuropil.models.word2vec.network import Word2Vec, Word2VecConfig
from neuropil.randomness import initialised
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.word_vectors.experiment import WordVectorExperiment
from neuropil.tasks.word_vectors.predictor import WordVectorPredictor
from neuropil.training.chunk_loop import ChunkTrainingConfig


class Word2VecOptions(Config):
    data: WordDataConfig = WordDataConfig()
    model: Word2VecConfig = Word2VecConfig()
    sampling: NegativeSamplingConfig = NegativeSamplingConfig()
    # The embedded text is short, and passed over more often.
    training: ChunkTrainingConfig = ChunkTrainingConfig(epochs=10)


def build(options: Word2VecOptions, seed: int) -> WordVectorExperiment:
    corpus = prepare_words(options.data)
    config = dataclasses.replace(options.model, vocabulary_size=len(corpus.vocabulary))
    model = initialised(lambda: Word2Vec(config), seed)
    return WordVectorExperiment(model, corpus, options.sampling, options.training, seed=seed, name="word2vec")


OWN_DATA = Word2VecOptions(training=ChunkTrainingConfig())
RECIPE = Recipe(Word2VecOptions(), build, Word2Vec, WordVectorPredictor, own_data=OWN_DATA)
