"""How classifiers and regressors are scored, and the baselines that they must beat: the simplest things that learn from
the same examples."""

from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.splits import Splits
from neuropil.parts.objectives import Classification, Regression
from neuropil.parts.standardize import Standardize
from neuropil.randomness import seeded
from neuropil.tasks.experiment import Result

LARGEST = 10_000


@runtime_checkable
class Regressor(Protocol):
    """What a model must have to learn numbers: the mean and standard deviation of its targets, fitted before
    training."""

    target_scale: Standardize


def scorer_for(
    model: nn.Module, schema: Schema, label_smoothing: float = 0.0, l1: float = 0.0
) -> Classification | Regression:
    """The learner whose metrics are reported, whatever the learning rule; it trains most models too."""
    if schema.task == "classification":
        return Classification(model, label_smoothing, l1)
    return Regression(model, l1, scale=cast(Regressor, model).target_scale.std)


def baselines(splits: Splits) -> list[Result]:
    """On the test part; large training parts are cut, and the name says so."""
    train, test, note = splits.train, splits.test, ""
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


def _share(correct: Tensor) -> float:
    return correct.double().mean().item()


def _errors(predicted: Tensor, test: Examples) -> dict[str, float]:
    difference = (predicted - test.targets).double()
    return {"squared_error": difference.square().mean().item(), "absolute_error": difference.abs().mean().item()}
