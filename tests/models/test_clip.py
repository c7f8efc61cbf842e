import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import CLIPConfig as TheirConfig
from transformers import CLIPModel
from transformers.models.clip.modeling_clip import image_text_contrastive_loss

from neuropil.errors import InputError
from neuropil.models.clip import (
    CLIP,
    SHARPEST,
    SIZES,
    CLIPConfig,
    ContrastiveMatching,
    TextTowerConfig,
    VisionTowerConfig,
)
from neuropil.parts.parameters import count_parameters

END = 29


def small(**options: Any) -> CLIP:
    torch.manual_seed(0)
    vision = VisionTowerConfig(width=16, heads=2, layers=2, patch=4, feed_forward=20, shape=(1, 8, 8))
    text = TextTowerConfig(width=24, heads=3, layers=2, context=9, feed_forward=28, vocabulary_size=30, end=END)
    model = CLIP(CLIPConfig(embedding_size=12, vision=vision, text=text).override(**options)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "scale":
                parameter += 0.1 * torch.randn_like(parameter)
    return model


def captions(count: int, time: int = 7) -> Tensor:
    """Of several lengths, each followed by its end, and by more ends."""
    tokens = torch.randint(0, END, (count, time))
    return tokens.masked_fill(torch.arange(time) >= torch.randint(1, time, (count, 1)), END)


def batch_of(groups: list[int]) -> dict[str, Tensor]:
    torch.manual_seed(len(groups))
    pictures = torch.randint(0, 256, (len(groups), 1, 8, 8), dtype=torch.uint8)
    return {"picture": pictures, "caption": captions(len(groups)), "group": torch.tensor(groups)}


# --- the loss ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 7))
@settings(deadline=None, max_examples=7)
def test_the_loss_is_hugging_faces_where_all_captions_differ(count: int):
    model = small()
    model.vision.standardize.fit(torch.randint(0, 256, (9, 1, 8, 8), dtype=torch.uint8))
    batch = batch_of(list(range(count)))
    with torch.no_grad():
        z = model(batch["picture"], batch["caption"])
        torch.testing.assert_close(
            ContrastiveMatching(model).loss(batch), image_text_contrastive_loss(z.T), atol=1e-6, rtol=1e-5
        )


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
@settings(deadline=None, max_examples=25)
def test_equal_captions_are_no_wrong_answers(groups: list[int]):
    """Written out: of each picture the right answer is its own caption, and the wrong ones are the captions of other
    groups."""
    model, batch = small(), batch_of(groups)
    with torch.no_grad():
        z, losses = (
            model(batch["picture"], batch["caption"]).double(),
            ContrastiveMatching(model).metrics(batch)["loss"],
        )
    for i, loss in enumerate(losses):
        others = [j for j in range(len(groups)) if groups[j] != groups[i]]
        by_picture = math.log(sum(math.exp(z[i, j] - z[i, i]) for j in [i, *others]))
        by_caption = math.log(sum(math.exp(z[j, i] - z[i, i]) for j in [i, *others]))
        assert float(loss) == pytest.approx((by_picture + by_caption) / 2, abs=1e-5)


def test_a_batch_of_one_group_has_nothing_to_learn():
    model, batch = small(), batch_of([5, 5, 5])
    assert float(ContrastiveMatching(model).loss(batch).detach()) == 0
    metrics = ContrastiveMatching(model).metrics(batch)
    assert metrics["text_recall_at_1"].tolist() == metrics["image_recall_at_1"].tolist() == [1, 1, 1]


def test_what_is_picked_is_right_if_it_is_of_the_same_group():
    groups = [0, 1, 0, 2, 2, 1]
    model, batch = small(), batch_of(groups)
    with torch.no_grad():
        z = model(batch["picture"], batch["caption"])
    metrics = ContrastiveMatching(model).metrics(batch)
    assert metrics["text_recall_at_1"].tolist() == [groups[int(z[i].argmax())] == groups[i] for i in range(6)]
    assert metrics["image_recall_at_1"].tolist() == [groups[int(z[:, j].argmax())] == groups[j] for j in range(6)]


def test_learning_brings_what_belongs_together_together():
    model, batch = small(), batch_of([0, 1, 2, 3])
    learner = ContrastiveMatching(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        learner.loss(batch).backward()
        optimizer.step()
    assert learner.metrics(batch)["text_recall_at_1"].mean() == 1
    assert float(learner.loss(batch).detach()) < 0.1


# --- the two towers ---------------------------------------------------------------------------------------------------


def test_vectors_have_unit_length_and_similarities_are_their_cosines():
    model = small()
    pictures, texts = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8), captions(4)
    with torch.no_grad():
        u, v, z = model.embed_pictures(pictures), model.embed_texts(texts), model(pictures, texts)
    torch.testing.assert_close(u.norm(dim=-1), torch.ones(3))
    torch.testing.assert_close(v.norm(dim=-1), torch.ones(4))
    torch.testing.assert_close(z, torch.cosine_similarity(u[:, None], v[None], dim=-1) / 0.07, atol=1e-4, rtol=1e-4)


def test_what_stands_after_the_end_is_not_read():
    model, texts = small(), captions(4)
    changed = texts.clone()
    for row in changed:
        row[int((row == END).int().argmax()) + 1 :] = 3
    with torch.no_grad():
        torch.testing.assert_close(model.embed_texts(texts), model.embed_texts(changed))
        torch.testing.assert_close(
            model.embed_texts(texts), model.embed_texts(torch.cat([texts, torch.full((4, 2), END)], 1))
        )


def test_the_sharpness_is_bounded():
    model = small()
    u, v = torch.eye(3), torch.eye(3)
    with torch.no_grad():
        model.scale.fill_(SHARPEST + 5)
        torch.testing.assert_close(model.compare(u, v), 100 * torch.eye(3))


@given(st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None, max_examples=10)
def test_it_is_hugging_faces_clip_on_pictures_of_any_size(rows: int, columns: int):
    model = small()
    theirs = CLIPModel(
        TheirConfig(
            projection_dim=12,
            vision_config={
                "hidden_size": 16,
                "num_attention_heads": 2,
                "num_hidden_layers": 2,
                "intermediate_size": 20,
                "patch_size": 4,
                "image_size": 8,
                "num_channels": 1,
                "projection_dim": 12,
            },
            text_config={
                "hidden_size": 24,
                "num_attention_heads": 3,
                "num_hidden_layers": 2,
                "intermediate_size": 28,
                "max_position_embeddings": 9,
                "vocab_size": 30,
                "eos_token_id": END,
                "projection_dim": 12,
            },
        )
    ).eval()
    theirs.load_state_dict(
        {name: tensor for name, tensor in model.published_state().items() if not name.startswith("standardize")}
    )
    pictures, texts = torch.randn(3, 1, 4 * rows, 4 * columns), captions(2)
    with torch.no_grad():
        expected = theirs(input_ids=texts, pixel_values=pictures, interpolate_pos_encoding=True).logits_per_image
        torch.testing.assert_close(model(pictures, texts), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("name", "count"), [("base_32", 151_277_313), ("large_14", 427_616_513)])
def test_the_published_sizes_have_the_published_numbers_of_parameters(name: str, count: int):
    with torch.device("meta"):
        assert count_parameters(CLIP(SIZES[name])) == count


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError) as error:
        small().embed_texts(captions(2, 11))
    assert str(error.value) == "the context length of this model is 9 tokens, but got 11: shorten the text."
    with pytest.raises(InputError) as error:
        small().embed_pictures(torch.zeros(1, 3, 8, 8))
    assert (
        str(error.value)
        == "inputs must have the shape [batch, 1, 8, 8] that the model was made for, but got [1, 3, 8, 8]."
    )
    with pytest.raises(InputError) as error:
        CLIPConfig(text=TextTowerConfig(width=100, heads=8))
    assert str(error.value) == "the heads must divide the width, but got 8 heads for a width of 100."
