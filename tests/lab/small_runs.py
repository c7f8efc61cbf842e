"""Options of runs on the embedded digits that take a few seconds at most, and are good enough to look at."""

from typing import Any

UNSCORED = {"scored_samples": 10, "classifier_updates": 1}
SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"updates": 200, "hidden_sizes": (32,)},
    "cnn": {"updates": 60, "width": 8},
    "spiking_classifier": {"updates": 30, "hidden_sizes": (32,), "steps": 10},
    "predictive_coding": {"updates": 150, "hidden_sizes": (32,), **UNSCORED},
    "vae": {"updates": 200, "hidden_sizes": (32,), "latent_size": 4, "importance_samples": 1, **UNSCORED},
    "autoencoder": {"updates": 100, "hidden_sizes": (32,), "latent_size": 3},
    "diffusion": {"updates": 5, "channels": (8,), "depth": 1, "attention_levels": (), "groups": 4, **UNSCORED},
    "hopfield": {},
    "rbm": {"updates": 300, "hidden_size": 64, "walks": 2, "annealing_steps": 2, **UNSCORED},
}
