"""Sections on a generative adversarial network: how the game stands, and the generator's step as an attack."""

import torch

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.report.page import Section, Table, Text
from neuropil.models.gan import GAN, AdversarialGame, diagnose, targeted_attack
from neuropil.randomness import seeded

MOST_EXAMPLES, ATTACKED = 512, 64


def gan_sections(model: GAN, learner: AdversarialGame, test: Examples) -> list[Section]:
    was_training = model.training
    model.eval()
    inputs = test.inputs[:MOST_EXAMPLES].to(model.unit_range.low.device)
    with torch.no_grad():
        measured = {name: float(values.mean()) for name, values in learner.metrics({"input": inputs}).items()}
    sections = [_game_section(measured), _attack_section(model)]
    model.train(was_training)
    return sections


def _game_section(measured: dict[str, float]) -> Section:
    found = diagnose(measured)
    words = "The game shows none of the usual faults." if found is None else f"{found.name}: {found.evidence}."
    cure = "" if found is None else f" The cure: {found.cure}."
    rows = [[name.replace("_", " "), value] for name, value in measured.items()]
    return Section("The game", [Text(f"{words[0].upper()}{words[1:]}{cure}"), Table(["on test examples", ""], rows)])


def _attack_section(model: GAN) -> Section:
    attack = targeted_attack(model, model.noise(ATTACKED, generator=seeded("attack")))
    before, alone, together = (
        float(logits.sigmoid().mean()) for logits in (attack.logits, attack.attacked_logits, attack.stepped_logits)
    )
    words = (
        "The generator's loss is that of a targeted attack on the discriminator, with the target real. Here one step "
        f"of each is compared on {ATTACKED} samples: the attack moves each sample by itself, the generator's step "
        "moves all of them through the weights that they share. The mean cosine between the two directions is "
        f"{float(attack.cosine.mean()):.2f}."
    )
    rows = [
        ["samples as they are", before],
        ["after an attack on each sample, as long as the generator's step", alone],
        ["after the generator's step", together],
    ]
    return Section("The generator's step is an attack", [Text(words), Table(["", "mean D(x)"], rows)])
