"""Auto-PGD, beside the paper's schedule and plain PGD."""

import torch
from torch.nn import functional as F

from digit_classifiers import cnn, held_out
from neuropil.adversarial.attacks import attack
from neuropil.adversarial.auto_pgd import AutoPGDConfig, auto_pgd, checkpoints_of
from neuropil.adversarial.threat_model import Norm, ThreatModel

EPS: dict[Norm, float] = {"linf": 0.1, "l2": 0.5}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_checkpoints_are_those_of_the_paper():
    assert sorted(checkpoints_of(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert sorted(checkpoints_of(1)) == [1]


def test_it_reaches_a_higher_loss_than_pgd_of_as_many_steps():
    model, (x, y) = cnn(), held_out(100)
    threat = ThreatModel("linf", 0.03)  # small enough that most stay right and are climbed to the end
    ours = auto_pgd(model, x, y, threat, AutoPGDConfig(steps=40), generator=generator())
    pgd = attack(model, x, y, threat, steps=40, early_stopping=False, generator=generator()).perturbed
    with torch.no_grad():
        still = (model(ours).argmax(1) == y) & (model(pgd).argmax(1) == y)
        assert still.double().mean() > 0.5
        assert F.cross_entropy(model(ours)[still], y[still]) > F.cross_entropy(model(pgd)[still], y[still])


def test_targets_fool_no_fewer_than_one_ascent_does():
    model, (x, y) = cnn(), held_out(60)
    for norm, eps in EPS.items():
        found = {
            name: attack(model, x, y, ThreatModel(norm, eps), name=name, steps=20, generator=generator())
            for name in ("apgd_ce", "apgd_dlr", "apgd_targeted")
        }
        assert found["apgd_targeted"].robust_accuracy <= found["apgd_dlr"].robust_accuracy
        assert found["apgd_ce"].robust_accuracy < found["apgd_ce"].clean_accuracy


def test_a_target_of_the_threat_model_is_the_only_one():
    model, (x, y) = cnn(), held_out(60)
    threat = ThreatModel("l2", 1.5, target=8)
    for name in ("apgd_ce", "apgd_dlr", "apgd_targeted"):
        found = attack(model, x, y, threat, name=name, steps=15, generator=generator())
        assert found.success[y != 8].double().mean() > 0.5
        assert (found.predicted_after[found.success] == 8).all()
        assert torch.equal(found.perturbed[y == 8], found.original[y == 8])
