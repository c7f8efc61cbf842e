"""Systems as scikit-learn's estimators, by scikit-learn's own checks."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import base
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import neuropil
from neuropil.errors import InputError
from neuropil.sklearn import Classifier, Estimator, Regressor, Transformer
from real_data import diabetes, digits

QUICK: dict[str, Any] = {"updates": 60, "batch_size": 32, "learning_rate": 1e-2, "random_state": 0}
IMAGES, LABELS = (part[:200] for part in digits())
ROWS = IMAGES.reshape(200, 64) / 255
NAMES = np.array([f"digit {label}" for label in LABELS])
TEXTS = [f"{mood} {number}" for number in range(20) for mood in ("such a good film", "a bad one, a very bad one")]
MOODS = np.array([1, 0] * 20)


def clone(estimator: Any) -> Any:
    return base.clone(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Classifier, Regressor, Transformer])
def test_it_passes_the_checks_of_scikit_learn(kind: type[Estimator]):
    results = check_estimator(kind("mlp", **QUICK), on_skip=None)
    assert len(results) > 40
    assert {each["check_name"] for each in results if each["status"] != "passed"} <= {"check_array_api_input"}


SOME_CHECKS = [
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimators_unfitted",
    "check_estimators_nan_inf",
    "check_n_features_in",
    "check_fit1d",
    "check_dataframe_column_names_consistency",
    "check_supervised_y_2d",
    "check_methods_subset_invariance",
    "check_estimators_pickle",
    "check_requires_y_none",
    "check_transformer_data_not_an_array",
    "check_complex_data",
]


@pytest.mark.parametrize("kind", [Classifier, Regressor, Transformer])
def test_it_passes_some_checks_of_scikit_learn_that_are_quick(kind: type[Estimator]):
    estimator = kind("mlp", **{**QUICK, "updates": 5})
    checks: list[Any] = [*estimator_checks_generator(estimator)]
    chosen = [(each, check) for each, check in checks if check.func.__name__ in SOME_CHECKS]
    assert len(chosen) >= len(SOME_CHECKS) - 1
    for each, check in chosen:
        check(each)


@pytest.fixture(scope="module")
def classifier() -> Any:
    return Classifier("mlp", hidden_sizes=(32,), **QUICK).fit(ROWS, NAMES)


def test_a_classifier_knows_its_classes_and_their_probabilities(classifier: Any):
    assert classifier.classes_.tolist() == [f"digit {label}" for label in range(10)]
    assert classifier.n_features_in_ == 64
    probabilities = classifier.predict_proba(ROWS)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(1)], classifier.predict(ROWS))
    assert classifier.score(ROWS, NAMES) > 0.9


def test_it_is_stored_by_pickle_without_any_folder(classifier: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(classifier))  # noqa: S301 (our own)
    np.testing.assert_array_equal(again.predict_proba(ROWS), classifier.predict_proba(ROWS))
    assert not [*tmp_path.iterdir()]


def test_the_same_seed_gives_the_same_answers_and_another_others(classifier: Any):
    same, other = clone(classifier).fit(ROWS, NAMES), clone(classifier).set_params(random_state=1).fit(ROWS, NAMES)
    np.testing.assert_array_equal(same.predict_proba(ROWS), classifier.predict_proba(ROWS))
    assert np.abs(other.predict_proba(ROWS) - classifier.predict_proba(ROWS)).max() > 1e-3


@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(float), LABELS % 2 == 0, NAMES.astype(object)])
def test_classes_keep_their_type_and_order(labels: np.ndarray):
    found = Classifier("mlp", hidden_sizes=(32,), **QUICK).fit(ROWS, labels)
    np.testing.assert_array_equal(found.classes_, np.unique(labels))
    assert found.score(ROWS, labels) > 0.9


def test_it_is_a_step_of_a_pipeline_whose_options_are_searched():
    pipeline = make_pipeline(StandardScaler(), Classifier("mlp", **QUICK))
    search = GridSearchCV(pipeline, {"classifier__hidden_sizes": [(2,), (32,)]}, cv=2).fit(ROWS, NAMES)
    assert search.best_params_ == {"classifier__hidden_sizes": (32,)}
    assert search.best_estimator_["classifier"].predictor_.model.config.hidden_sizes == (32,)


def test_parameters_are_the_options_that_were_given():
    found: Any = Classifier("cnn", width=8, epochs=3)
    assert repr(found) == "Classifier(epochs=3, system='cnn', width=8)"
    assert {"width": 8, "epochs": 3, "system": "cnn"}.items() <= clone(found).get_params().items()
    assert clone(found).set_params(depth=2, width=16).get_params()["width"] == 16
    with pytest.raises(InputError) as caught:
        found.set_params(widht=3)
    assert str(caught.value) == (
        "a parameter must be an option that `neuropil show` lists, but got 'widht': did you mean 'width'?"
    )


def test_columns_have_names_and_texts_in_them_are_categories():
    frame = pd.DataFrame(ROWS[:, :10], columns=[f"pixel {number}" for number in range(10)]).assign(name=NAMES)
    found: Any = Classifier("mlp", **QUICK).fit(frame, NAMES)
    assert [*found.feature_names_in_] == [*frame.columns]
    assert found.score(frame, NAMES) == 1
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        found.predict(frame.rename(columns={"name": "other"}))


def test_a_regressor_answers_in_the_units_of_its_targets():
    _, x, y = diabetes()
    found = Regressor("mlp", **QUICK).fit(x, y)
    assert found.score(x, y) > 0.4
    assert found.predict(x).shape == (len(x),)


def test_pictures_are_classified():
    found = Classifier("cnn", **QUICK).fit(IMAGES, LABELS)
    assert found.score(IMAGES, LABELS) > 0.8


def test_texts_are_classified_and_become_features_in_their_own_order():
    options = {**QUICK, "hidden_size": 16, "embedding_size": 16}
    found = Classifier("text_classifier", **options).fit(TEXTS, MOODS)
    assert found.score(TEXTS, MOODS) == 1
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 (our own)
    assert again.predict(TEXTS[:2]).tolist() == [1, 0]
    features = Transformer("text_classifier", **options).fit(TEXTS, MOODS)
    np.testing.assert_allclose(
        features.transform(TEXTS[:2]), np.concatenate([features.transform([text]) for text in TEXTS[:2]]), atol=1e-9
    )


def test_a_transformer_gives_what_the_output_layer_is_given():
    found = Transformer("mlp", hidden_sizes=(24,), **QUICK).fit(ROWS, NAMES)
    features, model = found.transform(ROWS), found.predictor_.model
    assert [*found.get_feature_names_out()][:2] == ["transformer0", "transformer1"]
    np.testing.assert_allclose(
        model.output(torch.from_numpy(features)).detach(), model(torch.from_numpy(ROWS)).detach(), atol=1e-5
    )
    assert make_pipeline(found, LogisticRegression()).fit(ROWS, NAMES).score(ROWS, NAMES) > 0.9


def test_with_out_the_run_stays_and_the_model_is_the_same(classifier: Any, tmp_path: Path):
    kept = clone(classifier).set_params(out=tmp_path / "run").fit(ROWS, NAMES)
    np.testing.assert_array_equal(kept.predict_proba(ROWS), classifier.predict_proba(ROWS))
    assert neuropil.load(tmp_path / "run").predictor.schema.classes == tuple(classifier.classes_)
    assert (tmp_path / "run" / "report.html").exists()


def test_it_says_nothing_unless_it_is_asked_to(capfd: pytest.CaptureFixture[str]):
    Classifier("mlp", **QUICK).fit(ROWS, NAMES)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (
            Classifier("lstm"),
            "the system of a Classifier must be mlp, cnn, text_classifier, attention, bert_classifier, vit, "
            "spiking_classifier or predictive_coding, but got 'lstm'.",
        ),
        (Regressor("cnn"), "the system of a Regressor must be mlp or predictive_coding, but got 'cnn'."),
        (
            Transformer("predictive_coding"),
            "the system of a Transformer must be mlp, cnn, text_classifier, attention, bert_classifier, vit or "
            "spiking_classifier, but got 'predictive_coding'.",
        ),
        (
            Classifier("mlp", hiden_sizes=(3,)),
            "an option must be one that `neuropil show` lists, but got 'hiden_sizes': did you mean 'hidden_sizes'?",
        ),
    ],
)
def test_what_it_cannot_be_is_refused_when_it_is_fitted(estimator: Any, sentence: str):
    with pytest.raises(InputError) as caught:
        estimator.fit(ROWS, LABELS)
    assert str(caught.value) == sentence


def test_all_names_are_there_before_anything_heavy_is_imported():
    assert {"sklearn", "train", "Run", "models"} <= {*dir(neuropil)}
