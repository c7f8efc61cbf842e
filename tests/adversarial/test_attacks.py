"""Attacks by name: what comes of each, whoever runs it."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from digit_classifiers import cnn, held_out, mlp
from neuropil.adversarial.attacks import ATTACKS, attack
from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.errors import InputError

FEW: dict[str, dict[str, Any]] = {
    "fgsm": {},
    "pgd": {"steps": 5},
    "momentum": {"steps": 5, "step_size": 0.4},
    "apgd_ce": {"steps": 8},
    "apgd_dlr": {"steps": 8},
    "apgd_targeted": {"steps": 4, "targets": 3},
    "square": {"queries": 60},
    "minimal": {"steps": 12},
    "deepfool": {"steps": 5},
    "bisection": {"steps": 3, "rounds": 3},
    "strongest": {"steps": 4, "targets": 2, "queries": 10},
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_attack_is_tried_here():
    assert set(FEW) == set(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize(("norm", "high"), [("linf", 1.0), ("l2", 255.0)])
def test_every_attack_stays_in_its_ball_and_tells_the_truth(name: str, norm: Norm, high: float):
    model, (x, y) = mlp(high), held_out(40, high)
    eps = high * (0.2 if norm == "linf" else 1.2)
    found = attack(model, x, y, ThreatModel(norm, eps, high=high), name=name, generator=generator(), **FEW[name])
    delta = found.perturbed - x
    lengths = delta.flatten(1).abs().amax(1) if norm == "linf" else delta.flatten(1).norm(dim=1)
    assert (lengths <= eps).all()
    assert found.perturbed.min() >= 0
    assert found.perturbed.max() <= high
    with torch.no_grad():
        assert torch.equal(found.predicted_before, model(x).argmax(1))
        assert torch.equal(found.predicted_after, model(found.perturbed).argmax(1))
    assert torch.equal(found.success, found.predicted_after != y)
    assert torch.equal(found.distance, lengths)
    assert (found.distance[found.predicted_before != y] == 0).all()
    assert found.robust_accuracy == pytest.approx(1 - found.success.double().mean().item())
    assert found.success_rate > 0.1


@settings(max_examples=15)
@given(
    st.sampled_from(["fgsm", "pgd", "square", "minimal"]),
    st.sampled_from(["linf", "l2"]),
    st.sampled_from([(3,), (2, 4), (1, 3, 5), (3, 4, 2)]),
    st.integers(2, 5),
    st.floats(0, 2, width=32),
)
def test_inputs_of_any_shape_are_attacked(name: str, norm: Norm, shape: tuple[int, ...], classes: int, eps: float):
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))
    x = 2 * torch.rand(6, *shape, generator=generator()) - 1
    model(x)
    y = torch.randint(classes, (6,), generator=generator(1))
    found = attack(model, x, y, ThreatModel(norm, eps, -1.0, 1.0), name=name, generator=generator(), **FEW[name])
    assert found.perturbed.shape == x.shape
    assert (found.distance <= eps).all()
    assert found.perturbed.abs().max() <= 1


def test_batches_change_nothing_where_nothing_is_random():
    model, (x, y) = cnn(), held_out(50)
    threat = ThreatModel("linf", 0.1)
    whole = attack(model, x, y, threat, name="fgsm")
    parts = attack(model, x, y, threat, name="fgsm", batch_size=7)
    assert torch.allclose(whole.perturbed, parts.perturbed, atol=1e-6)
    assert torch.equal(whole.success, parts.success)


def test_the_strongest_fools_all_that_any_of_its_parts_fools():
    model, (x, y) = cnn(), held_out(50)
    threat = ThreatModel("linf", 0.08)
    options: dict[str, Any] = {"steps": 10, "targets": 3, "queries": 30}
    strongest = attack(model, x, y, threat, name="strongest", generator=generator(), **options)
    for name, known in (("apgd_ce", ["steps"]), ("square", ["queries"]), ("fgsm", [])):
        own: dict[str, Any] = {each: options[each] for each in known}
        part = attack(model, x, y, threat, name=name, generator=generator(), **own)
        assert strongest.robust_accuracy <= part.robust_accuracy
    first = attack(model, x, y, threat, name="apgd_ce", generator=generator(), steps=10)
    assert strongest.success[first.success].all()
    assert torch.equal(strongest.perturbed[first.success], first.perturbed[first.success])


def test_a_target_counts_only_where_it_is_another_class():
    model, (x, y) = cnn(), held_out(50)
    found = attack(model, x, y, ThreatModel("l2", 1.5, target=4), generator=generator())
    assert torch.equal(found.success, (found.predicted_after == 4) & (y != 4))
    assert torch.equal(found.perturbed[y == 4], x[y == 4])
    assert found.success.double().mean() > 0.3


def test_progress_goes_to_one():
    shares: list[float] = []
    model, (x, y) = cnn(), held_out(30)
    attack(model, x, y, ThreatModel("linf", 0.02), name="fgsm", batch_size=8, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 1


def test_nothing_to_attack_is_no_error():
    model, (x, y) = cnn(), held_out(10)
    with torch.no_grad():
        wrong = (model(x).argmax(1) + 1) % 10
    found = attack(model, x, wrong, ThreatModel("linf", 0.1), name="strongest")
    assert found.success.all()
    assert torch.equal(found.perturbed, x)
    assert (found.clean_accuracy, found.robust_accuracy, found.success_rate) == (0, 0, 0)
    assert attack(model, x[:0], y[:0], ThreatModel("linf", 0.1)).robust_accuracy == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "pdg"}, "an attack must be one that is listed, but got 'pdg': did you mean 'pgd'?"),
        ({"restart": 3}, "an option must be one of the attack's, but got 'restart': did you mean 'restarts'?"),
        ({"name": "square", "queries": 0}, "queries must be at least 1, but got 0."),
        (
            {"y": torch.tensor([1, 2, 3, 10])},
            "labels and target must be classes from 0 to 9, one for each logit, but got 10.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str):
    model, (x, y) = cnn(), held_out(4)
    arguments: dict[str, Any] = {"x": x, "y": y, "threat": ThreatModel("linf", 0.1), **options}
    with pytest.raises(InputError) as error:
        attack(model, **arguments)
    assert str(error.value) == message
