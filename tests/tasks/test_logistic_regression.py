import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression as ScikitLearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neuropil.tasks.logistic_regression import LogisticRegression


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine], ids=["two classes", "three"])
def test_its_probabilities_are_those_of_scikit_learn(load, weighted: bool):
    x, y = load(return_X_y=True)
    weights = np.random.default_rng(0).uniform(0.1, 2, len(x)) if weighted else None
    theirs = make_pipeline(StandardScaler(), ScikitLearn(max_iter=300, tol=1e-3))
    theirs.fit(x, y, **({} if weights is None else {"logisticregression__sample_weight": weights}))
    ours = LogisticRegression.fit(torch.from_numpy(x), torch.from_numpy(y), weights)
    found = ours.probabilities(torch.from_numpy(x))
    torch.testing.assert_close(found, torch.from_numpy(theirs.predict_proba(x)), atol=1e-5, rtol=0)
    assert ours.predict(torch.from_numpy(x)).tolist() == theirs.predict(x).tolist()


def test_a_constant_column_changes_nothing():
    x, y = (torch.from_numpy(each) for each in load_wine(return_X_y=True))
    constant = torch.full((len(x), 1), 0.1, dtype=torch.double)
    alone, beside = LogisticRegression.fit(x, y), LogisticRegression.fit(torch.cat([x, constant], 1), y)
    torch.testing.assert_close(beside.probabilities(torch.cat([x, constant], 1)), alone.probabilities(x))


def test_classes_that_it_has_not_seen_are_not_predicted():
    x = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    fitted = LogisticRegression.fit(x, torch.tensor([1, 1, 4, 4]))
    assert fitted.classes.tolist() == [1, 4]
    assert fitted.predict(x).tolist() == [1, 1, 4, 4]
