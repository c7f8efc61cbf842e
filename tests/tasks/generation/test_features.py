import dataclasses

import torch

from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.tasks.generation.features import train_feature_extractor
from neuropil.tasks.generation.scores import frechet_distance

CPU = torch.device("cpu")


def test_the_classifier_knows_the_classes_and_is_the_same_for_the_same_seed():
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    extractor, again = (train_feature_extractor(splits.train, 100, 3, CPU) for _ in range(2))
    assert extractor.classify is not None
    assert (extractor.classify(splits.test.inputs) == splits.test.targets).double().mean() > 0.9
    assert torch.equal(extractor.features(splits.test.inputs), again.features(splits.test.inputs))
    assert extractor.about == "a CNN that was trained on the labels of the training part"


def test_without_labels_the_features_are_principal_components():
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    schema = dataclasses.replace(splits.train.schema, classes=())
    extractor = train_feature_extractor(dataclasses.replace(splits.train, schema=schema), 10, 0, CPU)
    assert extractor.classify is None
    assert extractor.about == "the first 64 principal components of the training part, which has no labels"
    train, test = extractor.features(splits.train.inputs), extractor.features(splits.test.inputs)
    noise = extractor.features(torch.randint_like(splits.test.inputs, 256))
    assert frechet_distance(test, train) < 0.1 * frechet_distance(noise, train)
