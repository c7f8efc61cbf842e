from collections.abc import Callable

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("latent")


@pytest.mark.parametrize("name", ["vae", "autoencoder"])
def test_codes_are_those_of_the_run_and_the_widest_axes_come_first(trained_run: Callable[..., Run], name: str):
    run = trained_run(name, **SMALL[name])
    opened = ask(VIEW, "open", run, {})
    codes = run.predictor.encode(held_out(run).examples.inputs)
    torch.testing.assert_close(torch.tensor(opened["codes"]), codes, atol=6e-4, rtol=0)
    assert [opened["horizontal"], opened["vertical"]] == codes.std(0).argsort(descending=True)[:2].tolist()
    made = run.reconstruct(held_out(run).examples.inputs[:1]).values
    assert opened["shown"]["reconstruction"] == made[0, 0].tolist()


def test_the_place_of_a_code_decodes_to_its_reconstruction(trained_run: Callable[..., Run]):
    run = trained_run("vae", **SMALL["vae"])
    encoded = ask(VIEW, "encode", run, {"example": 5})
    place = {"horizontal": 2, "vertical": 0, "x": encoded["code"][2], "y": encoded["code"][0]}
    assert ask(VIEW, "decode", run, {"example": 5, **place})["picture"] == encoded["reconstruction"]
    elsewhere = ask(VIEW, "decode", run, {"example": 5, **place, "others": "zero"})["picture"]
    code = torch.zeros(1, 4)
    code[0, 2], code[0, 0] = encoded["code"][2], encoded["code"][0]
    coder = run.predictor.reconstructor
    assert elsewhere == coder.as_data(coder.decode(code))[0, 0].tolist()


def test_the_variance_of_a_code_is_the_posterior_of_the_model(trained_run: Callable[..., Run]):
    run = trained_run("vae", **SMALL["vae"])
    posterior = run.model.posterior(held_out(run).examples.inputs[1:2])  # type: ignore[operator]
    answer = ask(VIEW, "encode", run, {"example": 1})
    assert answer["deviation"] == pytest.approx((0.5 * posterior.log_variance[0]).exp().tolist(), abs=1e-4)
    assert answer["kl"] == pytest.approx(posterior.kl[0].tolist(), abs=1e-4)


def test_the_corner_of_the_plane_is_what_is_decoded_there(trained_run: Callable[..., Run]):
    run = trained_run("vae", **SMALL["vae"])
    opened = ask(VIEW, "open", run, {})
    axes = {"horizontal": 1, "vertical": 3}
    plane = ask(VIEW, "plane", run, axes)
    half = (plane["tiles"] - 1) / plane["tiles"]
    corner = {"x": half * opened["reach"][1], "y": -half * opened["reach"][3]}  # the last of the last row
    decoded = ask(VIEW, "decode", run, {**axes, **corner})["picture"]
    shown = [row[-8:] for row in plane["picture"][-8:]]
    assert (torch.tensor(shown) - torch.tensor(decoded)).abs().max() <= 1  # reach is rounded


def test_the_way_is_the_interpolation_of_the_run(trained_run: Callable[..., Run]):
    run = trained_run("vae", **SMALL["vae"])
    answer = ask(VIEW, "interpolate", run, {"example": 0, "last": 9})
    examples = held_out(run).examples.inputs
    made = run.interpolate(examples[:1], examples[9:10], 9).values
    assert answer["pictures"] == made[:, 0].tolist()


def test_an_axis_that_is_not_there_is_refused(trained_run: Callable[..., Run]):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "plane", trained_run("vae", **SMALL["vae"]), {"horizontal": 9})
    assert str(refused.value) == "the axes of a plane must be two different dimensions from 0 to 3, but got 9 and 1."
