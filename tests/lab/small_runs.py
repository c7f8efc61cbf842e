"""Options of runs on the embedded digits, or scenes of them, that take a few seconds at most and are good enough to
look at."""

from typing import Any

UNSCORED = {"scored_samples": 10, "classifier_updates": 1}
SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"updates": 200, "hidden_sizes": (32,)},
    "cnn": {"epochs": 2, "width": 8},
    "spiking_classifier": {"epochs": 1, "hidden_sizes": (32,), "steps": 10},
    "predictive_coding": {"updates": 150, "hidden_sizes": (32,), **UNSCORED},
    "vae": {"updates": 200, "hidden_sizes": (32,), "latent_size": 4, "importance_samples": 1, **UNSCORED},
    "autoencoder": {"updates": 100, "hidden_sizes": (32,), "latent_size": 3},
    "diffusion": {"epochs": 1, "channels": (8,), "depth": 1, "attention_levels": (), "groups": 4, **UNSCORED},
    "hopfield": {},
    "forecaster": {"updates": 20, "members": 1, "hidden_size": 8},
    "vit": {"epochs": 2, "width": 16, "layers": 2, "heads": 2},
    "attention": {"epochs": 2, "width": 16, "layers": 2},
    "clip": {"epochs": 1, "scenes": 80},
    "captioner": {"epochs": 1, "scenes": 80, "compare": False},
    "rbm": {"updates": 300, "hidden_size": 64, "walks": 2, "annealing_steps": 2, **UNSCORED},
}
