"""scikit-learn's interface: neuropil's systems as estimators, in pipelines and searches.

    Classifier("mlp", hidden_sizes=(64,), epochs=20).fit(X, y).predict_proba(X)
    Classifier("text_classifier").fit(texts, labels).predict(texts)
    Regressor("mlp").fit(X, y, sample_weight=w).score(X, y)
    Transformer("mlp").fit(X, y).transform(X)     what the output layer is given: the last hidden features
    Transformer("rbm").fit(X).transform(X)        without labels: the code of a system that encodes, here P(h = 1 | v)

Parameters are the options that `neuropil show NAME` lists. The data goes the way of `neuropil.train(NAME, data=(X, y))`
into a folder that is removed at the end; with `out` the run folder stays, with scores and a report on the held-out
`test` share. The fitted estimator needs no folder, and is stored as scikit-learn's own are.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from neuropil import recipes
from neuropil.data.examples.dataset import Labels, encode_classes, number_name
from neuropil.data.formats.memory import in_memory
from neuropil.errors import InputError, nearest
from neuropil.inspection.output_inputs import with_output_inputs
from neuropil.models.mlp import MLP
from neuropil.models.predictive_coding.network import PredictiveCoding
from neuropil.runs.start import train
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.predictor import Encodes, Predictions, ScoresPseudoLikelihood, as_texts
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.text_classification.predictor import TextClassifier
from neuropil.tasks.texts import in_order
from neuropil.training.config import TrainingConfig, prepare_precision
from neuropil.training.weights import load_model

LEAST_HELD_OUT = 0.01
"""Share for the score that a run ends with, which an estimator does not show: as little as a run can do with."""
MOST_SEED = 2**31 - 1
OWN = ("system", "random_state", "out", "verbose")
"""Parameters that are no options of a system."""


class Estimator(BaseEstimator):
    """What the three share. `system` is a name in `neuropil list`, `random_state` the seed, `out` a folder to keep the
    run in, and `verbose` shows the progress of training. All other parameters are options of the system; those that
    every system has are None where it is to choose. What is given is looked at when it is fitted."""

    def __init__(
        self,
        system: Any = "mlp",
        *,
        epochs: Any = None,
        updates: Any = None,
        batch_size: Any = None,
        learning_rate: Any = None,
        validation: Any = None,
        test: Any = LEAST_HELD_OUT,
        random_state: Any = None,
        out: Any = None,
        verbose: Any = False,
        **options: Any,
    ):
        self.system = system
        self.epochs = epochs
        self.updates = updates
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.test = test
        self.random_state = random_state
        self.out = out
        self.verbose = verbose
        for name, value in options.items():
            setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        given = [name for name in vars(self) if not name.startswith("_") and not name.endswith("_")]
        return {name: getattr(self, name) for name in dict.fromkeys([*self._get_param_names(), *given])}

    def set_params(self, **params: Any) -> Self:
        known = [*self.get_params()]
        if not {*params} <= {*known}:
            known += [option.name for option in recipes.recipe(params.get("system", self.system)).options.options()]
        for name, value in params.items():
            if name not in known:
                rule = "a parameter must be an option that `neuropil show` lists"
                raise InputError(rule, got=f"{name!r}", fix=nearest(name, known))
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        tags.input_tags.string = self._reads_texts
        tags.input_tags.two_d_array = not self._reads_texts
        return tags

    @classmethod
    def _suits(cls, recipe: Recipe) -> bool:
        """Whether a system's model can answer as this estimator does."""
        return _has(recipe, ExamplePredictor, TextClassifier)

    @property
    def _recipe(self) -> Recipe:
        name = recipes.find(str(self.system)).name
        if not self._suits(recipes.recipe(name)):
            names = [each.name for each in recipes.SYSTEMS if self._suits(recipes.recipe(each.name))]
            rule = f"the system of a {type(self).__name__} must be {', '.join(names[:-1])} or {names[-1]}"
            raise InputError(rule, got=f"{self.system!r}")
        return recipes.recipe(name)

    @property
    def _reads_texts(self) -> bool:
        return _has(self._recipe, TextClassifier)

    @property
    def _needs_labels(self) -> bool:
        return True

    def _inputs(self, X: Any) -> Any:
        """Numbers as an array; texts, and tables that have columns of texts, as they are."""
        check_is_fitted(self)
        if self._reads_texts:
            return X
        categories = self._needs_labels and _has_text_columns(X)
        return validate_data(self, X, reset=False, allow_nd=True, skip_check_array=categories)

    def _pair(self, X: Any, y: Any, **checks: Any) -> tuple[Any, np.ndarray]:
        if not self._reads_texts and not _has_text_columns(X):
            checked: Any = validate_data(self, X, y, allow_nd=True, ensure_min_samples=2, **checks)
            return checked
        if not self._reads_texts:
            validate_data(self, X, y, skip_check_array=True)
        return X, column_or_1d(y, warn=True)

    def _fit(self, data: Any, task: str = "") -> Self:
        """From what is validated. Without `out` nothing is scored, which may take longer than to learn."""
        recipe, usual = self._recipe, self._get_param_names()
        given = {name: value for name, value in self.get_params().items() if value is not None or name not in usual}
        options: dict[str, Any] = {name: value for name, value in given.items() if name not in OWN}
        options |= {"task": task} if any(option.name == "task" for option in recipe.options.options()) else {}
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(MOST_SEED))
        if self.out is not None:
            options |= {"out": self.out, "seed": seed, "show_progress": self.verbose}
            self.predictor_: Any = train(self.system, data=data, **options).predictor
        else:
            defaults = recipe.defaults(own_data=True, start=bool(options.get("start")))
            chosen = defaults.override(data=in_memory(data), **options)
            prepare_precision(next(each for each in vars(chosen).values() if isinstance(each, TrainingConfig)))
            experiment = recipe.build(chosen, seed)
            with TemporaryDirectory(prefix="neuropil-") as temporary:
                folder = Path(temporary)
                experiment.train(folder, show_progress=self.verbose)
                self.predictor_ = recipe.restore(experiment.facts(), folder)
                load_model(folder / "model.safetensors", self.predictor_.model)
        self.predictor_.model.cpu().double().eval()  # so that an answer does not depend on what else is asked
        return self

    def _predictions(self, X: Any) -> Predictions:
        inputs = self._inputs(X)
        return self.predictor_.predict(inputs)


def _has(recipe: Recipe, *kinds: type) -> bool:
    """Whether what opens a system's finished run is of one of these kinds, or has one of these capabilities."""
    return recipe.predictor is not None and issubclass(recipe.predictor, kinds)


def _has_text_columns(X: Any) -> bool:
    """Of a DataFrame: scikit-learn would refuse them, the system reads them as categories."""
    return hasattr(X, "columns") and any(not isinstance(each, np.ndarray) for each in in_memory(X).columns.values())


def _weighted(X: Any, y: np.ndarray, sample_weight: Any) -> tuple[Any, ...]:
    """(X, y), or (X, y, weights): weights are those of examples in the loss."""
    if sample_weight is None:
        return X, y
    rows = np.empty((len(y), 0)) if isinstance(X, list | tuple) else X  # texts have no shape to compare
    return X, y, _check_sample_weight(sample_weight, rows, dtype=np.float64)


class Classifier(ClassifierMixin, Estimator):
    """Classes of rows, of pictures [example row column …] or of texts, with their probabilities."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = self._pair(X, y)
        check_classification_targets(y)
        data = _weighted(X, y, sample_weight)
        self.classes_ = np.unique(y if len(data) == 2 else y[data[2] != 0])  # what does not count is left out
        return self._fit(data, "classification")

    def predict_proba(self, X: Any) -> Float[np.ndarray, "example class"]:
        found = self._predictions(X)
        names = tuple(map(_class_name, self.classes_.tolist()))
        places = encode_classes(Labels(np.arange(len(names)), names), found.classes, str)
        scores = found.scores.double().numpy()
        return scores[:, places.numpy()] / scores.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]


def _class_name(label: Any) -> str:
    return number_name(label) if isinstance(label, int | float) and not isinstance(label, bool) else str(label)


class Regressor(RegressorMixin, Estimator):
    """A number for each row or picture."""

    @classmethod
    def _suits(cls, recipe: Recipe) -> bool:
        return super()._suits(recipe) and recipe.model in (MLP, PredictiveCoding)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = self._pair(X, y, y_numeric=True)
        return self._fit(_weighted(X, y.astype(np.float64), sample_weight), "regression")

    def predict(self, X: Any) -> Float[np.ndarray, " example"]:
        return self._predictions(X).values.double().numpy()


def _scores_samples(estimator: "Transformer") -> bool:
    return _has(estimator._recipe, ScoresPseudoLikelihood)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Features. Of a system that encodes (autoencoder, vae, rbm): its codes, learned without labels. Of others: what
    the output layer of the trained system is given; labels that are fractions are learned by regression, others by
    classification."""

    @classmethod
    def _suits(cls, recipe: Recipe) -> bool:
        if _has(recipe, Encodes):
            return True
        return super()._suits(recipe) and recipe.model is not PredictiveCoding  # it settles, and has no output layer

    @property
    def _needs_labels(self) -> bool:
        return not _has(self._recipe, Encodes)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Codes are learned from X alone, and y is not looked at."""
        if not self._needs_labels:
            X = validate_data(self, X, allow_nd=True, ensure_min_samples=2)
            self._fit(X)
            self._n_features_out = self.predictor_.encode(X[:1]).shape[1]
            return self
        X, y = self._pair(X, y)
        self._fit((X, y), "regression" if type_of_target(y) == "continuous" else "classification")
        self._n_features_out = self.predictor_.model.output.in_features
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "example feature"]:
        inputs = self._inputs(X)
        if not self._needs_labels:
            return self.predictor_.encode(inputs).double().numpy()
        watched, found = with_output_inputs(self.predictor_.model)
        replace(self.predictor_, model=watched).predict(inputs)
        features = torch.cat(found)
        if self._reads_texts:  # which are read in the order of their lengths
            encoded = self.predictor_.encoder.encode(as_texts(inputs), torch.arange(len(features)))
            order = [batch["target"] for batch in in_order(encoded, features.device).epoch(0)]
            features = torch.empty_like(features).index_copy(0, torch.cat(order), features)
        return features.double().numpy()

    @available_if(_scores_samples)
    def score_samples(self, X: Any) -> Float[np.ndarray, " example"]:
        """The pseudo-likelihood Σ_i ln q(v_i | all others) of each example, in nats: higher is likelier. scikit-learn's
        `BernoulliRBM.score_samples` estimates the same by one unit i, drawn at random; here all are summed."""
        inputs = self._inputs(X)
        return self.predictor_.pseudo_likelihood(inputs).double().numpy()
