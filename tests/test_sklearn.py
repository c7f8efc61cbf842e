"""Systems as scikit-learn's estimators, by scikit-learn's own checks."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import base
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import BernoulliRBM
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


LABELLED = [(Classifier, "mlp"), (Regressor, "mlp"), (Transformer, "mlp")]
UNLABELLED = [(Transformer, "autoencoder"), (Transformer, "vae"), (Transformer, "rbm")]


WEIGHTED = (Classifier, Regressor)
NOT_EQUIVALENT = "check_sample_weight_equivalence_on_dense_data"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "system"), [*LABELLED, *UNLABELLED])
def test_it_passes_the_checks_of_scikit_learn(kind: type[Estimator], system: str):
    expected = {NOT_EQUIVALENT: "examples are split into parts, and shuffled into batches"} if kind in WEIGHTED else {}
    results = check_estimator(kind(system, **QUICK), on_skip=None, expected_failed_checks=expected)
    assert len(results) > 40
    not_passed = {each["check_name"] for each in results if each["status"] != "passed"}
    assert not_passed <= {"check_array_api_input", *expected}


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


@pytest.mark.parametrize("kind", WEIGHTED)
def test_it_passes_the_checks_of_sample_weights(kind: type[Estimator]):
    estimator = kind("mlp", **{**QUICK, "updates": 5})
    checks: list[Any] = [*estimator_checks_generator(estimator)]
    names = [check.func.__name__ for _, check in checks if "sample_weight" in check.func.__name__]
    assert len(names) >= 7
    for each, check in checks:
        if check.func.__name__ in names and check.func.__name__ != NOT_EQUIVALENT:
            check(each)


def test_sample_weights_are_weights_in_the_loss():
    weights = np.where(LABELS < 5, 3.0, 1.0)
    fitted = Classifier("mlp", **QUICK).fit(ROWS, LABELS, sample_weight=weights)
    same = Classifier("mlp", **QUICK).fit(ROWS, LABELS, sample_weight=list(2 * weights))
    plain = Classifier("mlp", **QUICK).fit(ROWS, LABELS)
    np.testing.assert_allclose(fitted.predict_proba(ROWS), same.predict_proba(ROWS), rtol=1e-3, atol=1e-5)
    assert np.abs(fitted.predict_proba(ROWS) - plain.predict_proba(ROWS)).max() > 0.01


def test_texts_have_sample_weights_too_and_what_does_not_count_is_no_class():
    labels = np.array(["good", "bad", "none"])[[*(1 - MOODS[:38]), 2, 2]]
    weights = np.where(labels == "none", 0.0, 1.0)
    fitted = Classifier("text_classifier", **{**QUICK, "updates": 20}).fit(TEXTS, labels, sample_weight=weights)
    assert fitted.classes_.tolist() == ["bad", "good"]
    assert fitted.predict_proba(TEXTS[:4]).shape == (4, 2)


FOR_LABELS = {"check_supervised_y_2d", "check_requires_y_none"}


@pytest.mark.parametrize(("kind", "system"), [*LABELLED, *UNLABELLED])
def test_it_passes_some_checks_of_scikit_learn_that_are_quick(kind: type[Estimator], system: str):
    estimator = kind(system, **{**QUICK, "updates": 5})
    checks: list[Any] = [*estimator_checks_generator(estimator)]
    chosen = [(each, check) for each, check in checks if check.func.__name__ in SOME_CHECKS]
    assert len(chosen) >= len(SOME_CHECKS) - (1 if (kind, system) in LABELLED else 1 + len(FOR_LABELS))
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


def test_threads_may_transform_at_once():
    found = Transformer("mlp", hidden_sizes=(24,), **QUICK).fit(ROWS, NAMES)
    parts = np.array_split(ROWS, 2)
    expected = [found.transform(part) for part in parts]
    with ThreadPoolExecutor(2) as threads:
        for number, features in zip([0, 1] * 50, threads.map(found.transform, parts * 50), strict=True):
            np.testing.assert_allclose(features, expected[number], atol=1e-9)


@pytest.mark.parametrize("system", [system for _, system in UNLABELLED])
def test_codes_are_learned_without_labels_and_a_logistic_regression_learns_from_them(system: str):
    """From the pixels it reaches 0.92."""
    found = Transformer(system, updates=300, random_state=0)
    pipeline = make_pipeline(found, LogisticRegression(max_iter=1000)).fit(ROWS[:100], NAMES[:100])
    assert pipeline.score(ROWS[100:], NAMES[100:]) > 0.8


def test_codes_are_what_the_model_encodes_and_labels_change_nothing():
    found = Transformer("autoencoder", latent_size=5, **QUICK).fit(ROWS)
    model, rows = found.predictor_.model, torch.from_numpy(ROWS)
    np.testing.assert_allclose(found.transform(ROWS), model.encode(rows).detach(), atol=1e-6)
    assert [*found.get_feature_names_out()] == [f"transformer{number}" for number in range(5)]
    np.testing.assert_array_equal(clone(found).fit(ROWS, NAMES).transform(ROWS), found.transform(ROWS))


@pytest.fixture(scope="module")
def rbm() -> Any:
    return Transformer("rbm", hidden_size=20, **QUICK).fit(ROWS)


def as_theirs(model: Any, rows: np.ndarray) -> BernoulliRBM:
    theirs = BernoulliRBM(model.config.hidden_size, n_iter=1, random_state=0).fit(rows)
    theirs.components_ = model.weight.detach().T.numpy().copy()
    theirs.intercept_visible_ = model.visible_bias.detach().numpy().copy()
    theirs.intercept_hidden_ = model.hidden_bias.detach().numpy().copy()
    return theirs


def test_an_rbm_transforms_as_bernoulli_rbm_does_with_the_same_weights(rbm: Any):
    model = rbm.predictor_.model
    visible = model.encode(torch.from_numpy(ROWS)).numpy()
    np.testing.assert_allclose(rbm.transform(ROWS), as_theirs(model, visible).transform(visible), atol=1e-6)


def test_scores_of_samples_are_what_bernoulli_rbm_estimates_by_random_units(rbm: Any):
    model, repeats = rbm.predictor_.model, 20_000
    visible = model.encode(torch.from_numpy(ROWS[:5])).numpy()
    estimates = as_theirs(model, visible).score_samples(np.repeat(visible, repeats, axis=0)).reshape(5, repeats)
    errors = estimates.std(axis=1) / np.sqrt(repeats)
    assert (errors < 0.5).all()
    assert (np.abs(rbm.score_samples(ROWS[:5]) - estimates.mean(axis=1)) < 5 * errors).all()


def test_scores_of_samples_tell_digits_from_noise(rbm: Any):
    noise = np.random.default_rng(0).permuted(ROWS, axis=1)
    assert rbm.score_samples(ROWS).mean() > rbm.score_samples(noise).mean() + 10


def test_only_a_system_with_a_pseudo_likelihood_scores_samples():
    systems = ["rbm", "autoencoder", "vae", "mlp"]
    assert [system for system in systems if hasattr(Transformer(system), "score_samples")] == ["rbm"]
    gaussian = Transformer("rbm", visible="gaussian", **QUICK).fit(ROWS)
    with pytest.raises(InputError) as caught:
        gaussian.score_samples(ROWS)
    assert str(caught.value) == (
        "the pseudo-likelihood needs visible units of two states, but got Gaussian ones: use visible='bernoulli'."
    )


def test_pictures_are_encoded_too():
    found = Transformer("vae", network="convolutional", latent_size=4, **QUICK).fit(IMAGES)
    assert found.transform(IMAGES[:3]).shape == (3, 4)


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
            "the system of a Transformer must be mlp, cnn, text_classifier, attention, bert_classifier, vit, "
            "autoencoder, vae, rbm or spiking_classifier, but got 'predictive_coding'.",
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
