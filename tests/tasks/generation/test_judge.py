import dataclasses

import torch

from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled
from neuropil.tasks.generation.judge import train_judge
from neuropil.tasks.generation.scores import frechet_distance

CPU = torch.device("cpu")


def test_a_judge_knows_the_classes_and_is_the_same_for_the_same_seed():
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    judge, again = (train_judge(splits.train, 100, 3, CPU) for _ in range(2))
    assert judge.classify is not None
    assert (judge.classify(splits.test.inputs) == splits.test.targets).double().mean() > 0.9
    assert torch.equal(judge.features(splits.test.inputs), again.features(splits.test.inputs))
    assert judge.about == "a CNN that was trained on the labels of the training part"


def test_without_labels_the_judge_looks_at_principal_components():
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    schema = dataclasses.replace(splits.train.schema, classes=())
    judge = train_judge(dataclasses.replace(splits.train, schema=schema), 10, 0, CPU)
    assert judge.classify is None
    assert judge.about == "the first 64 principal components of the training part, which has no labels"
    train, test = judge.features(splits.train.inputs), judge.features(splits.test.inputs)
    noise = judge.features(torch.randint_like(splits.test.inputs, 256))
    assert frechet_distance(test, train) < 0.1 * frechet_distance(noise, train)
