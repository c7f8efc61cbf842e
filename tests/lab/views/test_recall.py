from collections.abc import Callable

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.data.examples.damage import inverted, uncovered
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.randomness import seeded
from neuropil.runs.run import Run
from neuropil.sampling.gibbs import gibbs_chain

VIEW = find_view("recall")


def test_a_hopfield_network_falls_to_the_stored_pattern_and_names_it(trained_run: Callable[..., Run]):
    run = trained_run("hopfield", **SMALL["hopfield"])
    memory = run.predictor
    for number, name in enumerate(memory.stored.names):
        answer = ask(VIEW, "settle", run, {"example": number, "share": 0.25})
        assert answer["found"] == f"It settled at {name}."
        assert answer["frames"][-1] == memory.pictures(memory.stored.signs[number : number + 1])[0, 0].tolist()
        energies = torch.tensor(answer["energies"])
        assert (energies.diff() <= 1e-3).all()  # they are rounded
        assert energies[-1] < energies[0]


def test_wrong_pixels_settle_where_the_run_recalls_them(trained_run: Callable[..., Run]):
    run = trained_run("hopfield", **SMALL["hopfield"])
    answer = ask(VIEW, "settle", run, {"damage": "noise", "share": 0.1, "seed": 4})
    stored = run.predictor.pictures(run.predictor.stored.signs[:1])
    given = inverted(stored, 0.1, seeded(4, "noise"))
    assert answer["given"] == given[0, 0].tolist()
    assert answer["found"] == f"It settled at {run.recall(given).names[0]}."


def test_an_rbm_takes_gibbs_steps_around_what_is_held(trained_run: Callable[..., Run]):
    run = trained_run("rbm", **SMALL["rbm"])
    asked = {"example": 3, "side": "left", "steps": 12, "temperature": 0.7, "seed": 2}
    answer = ask(VIEW, "settle", run, asked)
    picture = held_out(run).examples.inputs[3:4]
    assert [row[4:] for row in answer["frames"][-1]] == picture[0, 0, :, 4:].tolist()
    known, model = uncovered((1, 8, 8), "left", 0.5).flatten(), run.model
    with torch.no_grad():
        start = torch.where(known, model.encode(picture), model.visible_bias.sigmoid())  # type: ignore[operator]
        *_, last = gibbs_chain(model, start, [0.7] * 12, clamped=known, generator=seeded(2, "chain"))  # type: ignore[arg-type]
        free = model.free_energy(last.visible)  # type: ignore[operator]
    assert len(answer["energies"]) == 13
    assert answer["energies"][-1] == pytest.approx(float(free), abs=1e-3)


def test_predictive_coding_completes_the_covered_half(trained_run: Callable[..., Run]):
    run = trained_run("predictive_coding", **SMALL["predictive_coding"])
    answer = ask(VIEW, "settle", run, {"example": 8, "steps": 100})
    picture = held_out(run).examples.inputs[8:9]
    with torch.no_grad():
        whole = run.model.complete(picture, uncovered((1, 8, 8), "bottom", 0.5), 100)  # type: ignore[operator]
    assert answer["frames"][-1] == whole[0, 0].round().clamp(0, 255).int().tolist()
    assert answer["frames"][-1][:4] == picture[0, 0, :4].tolist()
    assert answer["every"] * (len(answer["energies"]) - 1) >= 100
    assert answer["energies"] == sorted(answer["energies"], reverse=True)
