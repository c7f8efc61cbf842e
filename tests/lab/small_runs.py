"""Options of runs on the embedded digits that take a few seconds at most, and are good enough to look at."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"updates": 200, "hidden_sizes": (32,)},
    "cnn": {"updates": 60, "width": 8},
    "spiking_classifier": {"updates": 30, "hidden_sizes": (32,), "steps": 10},
    "predictive_coding": {"updates": 150, "hidden_sizes": (32,)},
    "vae": {"updates": 200, "hidden_sizes": (32,), "latent_size": 4},
    "autoencoder": {"updates": 100, "hidden_sizes": (32,), "latent_size": 3},
    "diffusion": {"updates": 10, "width": 8},
    "hopfield": {},
    "rbm": {"updates": 200, "hidden_size": 32},
}
