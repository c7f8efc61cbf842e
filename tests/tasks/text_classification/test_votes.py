import pytest

from neuropil.models.text_classifier import RecurrentTextClassifier, RecurrentTextClassifierConfig
from neuropil.tasks.text_classification.experiment import votes


@pytest.mark.parametrize("bag", [True, False])
def test_a_network_beside_a_bag_of_words_votes_on_every_version_of_python(bag: bool):
    config = RecurrentTextClassifierConfig(vocabulary_size=5, bigrams=7, hidden_size=4, embedding_size=4, bag=bag)
    assert votes(RecurrentTextClassifier(config)) is bag
