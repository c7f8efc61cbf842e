"""What a model must beat: the simplest things that learn from the same examples."""

import torch

from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import Splits
from neuropil.randomness import seeded
from neuropil.tasks.recipe import Result

LARGEST = 10_000


def baselines(splits: Splits[Examples]) -> list[Result]:
    """Scores on the test part, for classification or regression; large training parts are cut, and the name says so."""
    train, test = splits.train, splits.test
    note = ""
    if len(train) > LARGEST:
        train = train.take(torch.randperm(len(train), generator=seeded("baseline"))[:LARGEST])
        note = f" (on {LARGEST:,} examples)"
    return _classifiers(train, test, note) if train.schema.task == "classification" else _regressors(train, test, note)


def _classifiers(train: Examples, test: Examples, note: str) -> list[Result]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    logistic.fit(train.inputs.flatten(1).numpy(), train.targets.numpy())
    predicted = torch.from_numpy(logistic.predict(test.inputs.flatten(1).numpy()))
    most_frequent = train.targets.mode().values
    return [
        Result(f"logistic regression{note}", {"accuracy": _share(predicted == test.targets)}),
        Result("always the most frequent class", {"accuracy": _share(test.targets == most_frequent)}),
    ]


def _regressors(train: Examples, test: Examples, note: str) -> list[Result]:
    from sklearn.linear_model import LinearRegression

    linear = LinearRegression().fit(train.inputs.flatten(1).numpy(), train.targets.numpy())
    predicted = torch.from_numpy(linear.predict(test.inputs.flatten(1).numpy())).to(test.targets)
    return [
        Result(f"linear regression{note}", _errors(predicted, test)),
        Result("always the mean", _errors(train.targets.mean().expand_as(test.targets), test)),
    ]


def _share(correct: torch.Tensor) -> float:
    return correct.double().mean().item()


def _errors(predicted: torch.Tensor, test: Examples) -> dict[str, float]:
    difference = (predicted - test.targets).double()
    return {"squared_error": difference.square().mean().item(), "absolute_error": difference.abs().mean().item()}
