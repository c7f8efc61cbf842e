"""The door to published models: it is closed until somebody asks, and finds what is behind it by name."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
from neuropil.models.clip import CLIP
from neuropil.models.diffusion import Diffusion
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.unet.network import UNet
from neuropil.models.vit import ViT
from neuropil.parts.checkpoint_families import CheckpointFamily, family_of
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.protocols import PublishedWeights
from neuropil.training.weights import unique_state

CONFIG = GPT2Config(width=8, heads=2, layers=1, feed_forward=12, context=6, vocabulary_size=11)


@pytest.mark.parametrize("kind", [GPT2, BERT, MaskedBERT, BERTClassifier, ViT, CLIP, UNet, Diffusion])
def test_behind_every_door_is_a_family(kind: type[PretrainedModel]):
    assert isinstance(family_of(kind.family), CheckpointFamily)


def test_a_model_can_be_made_and_used_without_opening_the_door():
    program = (
        "import sys, torch\nfrom neuropil.models.gpt2 import GPT2, SIZES\n"
        "GPT2(SIZES['tiny'])(torch.zeros(1, 3, dtype=torch.int64))\n"
        "print([name for name in sys.modules if name.startswith('neuropil.pretrained')])"
    )
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert told == "[]\n"


def test_weights_are_kept_under_the_names_that_they_have_there():
    model = GPT2(CONFIG)
    assert isinstance(model, PublishedWeights)
    kept = unique_state(model)
    assert kept["transformer.h.0.attn.c_attn.weight"].shape == (8, 24)
    kept["transformer.h.0.attn.c_attn.weight"].zero_()
    assert not model.blocks[0].attention.projection.weight.any()


def test_a_folder_is_given_as_a_path_or_as_text(tmp_path: Path):
    model = GPT2(CONFIG).eval()
    model.save_pretrained(str(tmp_path / "new" / "folder"))
    tokens = torch.tensor([[1, 2, 3]])
    for source in (tmp_path / "new" / "folder", str(tmp_path / "new" / "folder")):
        assert torch.allclose(GPT2.from_pretrained(source)(tokens), model(tokens), atol=1e-6)


def test_options_can_be_set_differently(tmp_path: Path):
    GPT2(CONFIG).save_pretrained(tmp_path)
    model = GPT2.from_pretrained(tmp_path, dropout=0.3, attention_dropout=0.4)
    assert (model.config.dropout, model.config.attention_dropout) == (0.3, 0.4)
    assert model.blocks[0].attention.dropout == 0.4
