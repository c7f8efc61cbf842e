"""Folders of models: what they must hold, what is wrong with those that cannot be opened, and what opening costs in
memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import neuropil
from neuropil.errors import InputError, NeuropilError, RunError
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.models.clip import CLIP
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.vit import ViT

SMALL = GPT2Config(width=8, heads=2, layers=1, feed_forward=12, context=6, vocabulary_size=11)
SMALL_BERT = BERTConfig(width=8, heads=2, layers=1, feed_forward=12, context=6, vocabulary_size=11)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    GPT2(SMALL).save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def said(kind: Any, source: Any, error: type[NeuropilError] = InputError, **changes: Any) -> str:
    with pytest.raises(error) as caught:
        kind.from_pretrained(source, **changes)
    return str(caught.value)


def rewrite(folder: Path, **tensors: Any) -> None:
    """With these tensors; without those that are None."""
    weights = load_file(folder / "model.safetensors") | {
        name.replace("__", "."): tensor for name, tensor in tensors.items()
    }
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors")


def reset(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    found = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({name: value for name, value in found.items() if value != "REMOVED"}))


# --- folders that are no model ----------------------------------------------------------------------------------------


def test_a_folder_without_a_config_is_no_model(tmp_path: Path):
    assert said(GPT2, tmp_path) == f"a model's folder must hold config.json, but got none in {str(tmp_path)!r}."


def test_a_folder_without_weights_is_no_model(folder: Path):
    (folder / "model.safetensors").unlink()
    assert said(GPT2, folder) == f"a model's folder must hold model.safetensors, but got none in {str(folder)!r}."


def test_a_file_is_no_folder(folder: Path):
    path = folder / "model.safetensors"
    assert (
        said(GPT2, path) == f"GPT2 is made from a whole folder, but got the file {str(path)!r}: give {str(folder)!r}."
    )


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The names that the hub was asked for from an empty folder, each with the files that were wanted."""
    names: list[tuple[str, list[str]]] = []

    def no_network(name: str, allow_patterns: list[str]) -> str:
        names.append((name, allow_patterns))
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", no_network)
    (tmp_path / "below").mkdir()  # so that no other test's runs are beside it
    monkeypatch.chdir(tmp_path / "below")
    return names


PATHS = [
    *("/nowhere/to/be/found", "./gpt2", "../gpt2", "a/b/c", "~/gpt2", "gpt2"),
    *("runs/typo", "runs/typo/", "runs\\typo", "data/my model", "here/typo", "models/model.safetensors"),
]


@pytest.mark.parametrize("name", PATHS)
def test_a_path_that_does_not_exist_is_not_looked_for_on_the_hub(name: str, asked: list[Any]):
    Path("here").mkdir()
    rule = "GPT2 is made from a folder, or from owner/name on the Hugging Face hub"
    assert said(GPT2, name) == f"{rule}, but got {name!r}, which is no folder here."
    with pytest.raises(InputError) as error:
        neuropil.open(name)
    rule = "a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors"
    assert str(error.value) == f"{rule}, but got {name!r}, which is no folder here."
    assert asked == []


@pytest.mark.parametrize("name", ["owner/name", "Qwen/Qwen2.5-0.5B", "BAAI/bge-small-en-v1.5"])
def test_owner_and_name_are_looked_for_on_the_hub(name: str, asked: list[Any]):
    failed = f"{name!r}, which is no folder here and could not be downloaded (no network)"
    rule = "GPT2 is made from a folder, or from owner/name on the Hugging Face hub"
    assert said(GPT2, name) == f"{rule}, but got {failed}."
    with pytest.raises(InputError) as error:
        neuropil.open(name)
    assert (
        str(error.value)
        == f"a model is made from a folder, or from owner/name on the Hugging Face hub, but got {failed}."
    )
    assert [asked_name for asked_name, _ in asked] == [name, name]
    assert all("sentence_bert_config.json" in wanted for _, wanted in asked)


def test_a_name_on_the_hub_cannot_be_had_without_a_network():
    """In a process of its own, since the hub's library asks its environment once."""
    program = "from neuropil.models.gpt2 import GPT2\ntry: GPT2.from_pretrained('nobody/nothing')\n"
    program += "except ValueError as error: print(error)"
    environment = {
        "HF_HUB_OFFLINE": "1",
        "PATH": "",
        "HOME": "/nowhere",
        "PYTHONPATH": ":".join(sys.path),
        "OMP_NUM_THREADS": "1",
    }
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    rule = "GPT2 is made from a folder, or from owner/name on the Hugging Face hub"
    assert told.startswith(f"{rule}, but got 'nobody/nothing', which is no folder here and could not be downloaded (")
    assert told.count("\n") == 1


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert said(GPT2, folder) == (
        f"weights are read from safetensors, since a pickle can run any program, "
        f"but got pytorch_model.bin in {str(folder)!r}: convert it "
        'where you trust it: python -c "from transformers import AutoModel; '
        f"AutoModel.from_pretrained('{folder}').save_pretrained('converted')\"."
    )


# --- another architecture, or another kind of this one ----------------------------------------------------------------


@pytest.mark.parametrize(("kind", "wanted"), [(BERT, "bert"), (MaskedBERT, "bert"), (ViT, "vit"), (CLIP, "clip")])
def test_another_architecture_is_named(folder: Path, kind: Any, wanted: str):
    assert (
        said(kind, folder)
        == f"{kind.__name__} is made from a model of type {wanted!r}, but got 'gpt2' in {str(folder)!r}."
    )


def test_settings_without_a_type_are_no_model(folder: Path):
    reset(folder, model_type="REMOVED")
    assert (
        said(GPT2, folder)
        == f"GPT2 is made from a model of type 'gpt2', but got a config.json without model_type in {str(folder)!r}."
    )


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (
            "scale_attn_weights",
            False,
            "GPT2 is GPT-2 as it was published, with scale_attn_weights=True, but got False.",
        ),
        (
            "add_cross_attention",
            True,
            "GPT2 is GPT-2 as it was published, with add_cross_attention=False, but got True.",
        ),
        (
            "activation_function",
            "silu",
            "the activation must be one of gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu, but got 'silu'.",
        ),
        ("n_head", 3, "the heads must divide the width, but got 3 heads for a width of 8."),
        ("n_layer", 0, "layers must be at least 1, but got 0."),
    ],
)
def test_settings_that_we_do_not_have_are_refused(folder: Path, setting: str, value: Any, sentence: str):
    reset(folder, **{setting: value})
    assert said(GPT2, folder) == sentence


@pytest.mark.parametrize(
    ("kind", "setting", "value", "sentence"),
    [
        (BERT, "is_decoder", True, "BERT is BERT as it was published, with is_decoder=False, but got True."),
        (
            BERT,
            "position_embedding_type",
            "relative_key",
            "with position_embedding_type=absolute, but got relative_key.",
        ),
        (
            MaskedBERT,
            "tie_word_embeddings",
            False,
            "MaskedBERT is BERT as it was published, with tie_word_embeddings=True, but got False.",
        ),
    ],
)
def test_a_bert_of_another_kind_is_refused(tmp_path: Path, kind: Any, setting: str, value: Any, sentence: str):
    MaskedBERT(SMALL_BERT).save_pretrained(tmp_path)
    reset(tmp_path, **{setting: value})
    assert said(kind, tmp_path).endswith(sentence)


def test_what_settings_do_not_say_is_as_it_was_published(folder: Path):
    reset(
        folder,
        layer_norm_epsilon="REMOVED",
        resid_pdrop="REMOVED",
        activation_function="REMOVED",
        tie_word_embeddings="REMOVED",
    )
    assert GPT2.from_pretrained(folder).config == SMALL


# --- tensors that do not fit ------------------------------------------------------------------------------------------


def test_missing_unknown_and_wrongly_shaped_tensors_are_listed_by_name(folder: Path):
    rewrite(
        folder,
        transformer__ln_f__bias=None,
        transformer__h__0__mlp__c_fc__weight=torch.zeros(12, 8),
        transformer__h__7__surprise=torch.zeros(2),
        transformer__wpe__weight=torch.zeros(6, 8, dtype=torch.int8),
    )
    assert said(GPT2, folder) == (
        f"{folder} must hold weights that fit its config.json, but got transformer.ln_f.bias is missing; "
        "transformer.h.7.surprise is unknown; transformer.h.0.mlp.c_fc.weight has shape [12, 8], not [8, 12]; "
        "transformer.wpe.weight is of type I8, not one of F64, F32, F16, BF16."
    )


def test_names_are_those_of_the_folder_where_it_has_no_prefix(folder: Path):
    bare = {
        name.removeprefix("transformer."): tensor for name, tensor in load_file(folder / "model.safetensors").items()
    }
    bare["h.7.surprise"] = torch.zeros(2)
    del bare["ln_f.bias"]
    save_file(bare, folder / "model.safetensors")
    assert (
        said(GPT2, folder) == f"{folder} must hold weights that fit its config.json, but got ln_f.bias is missing; "
        "h.7.surprise is unknown."
    )


def test_no_more_than_eight_are_listed(folder: Path):
    reset(folder, n_layer=2)
    problems = said(GPT2, folder)
    assert problems.count("is missing") == 8
    assert problems.endswith("; and 4 more.")


def test_a_head_must_be_there_whole_or_not_at_all(tmp_path: Path):
    BERTClassifier(BERTConfig.from_dict(SMALL_BERT.to_dict() | {"classes": 3})).save_pretrained(tmp_path)
    rewrite(tmp_path, classifier__bias=None)
    assert (
        said(BERTClassifier, tmp_path)
        == f"{tmp_path} must hold weights that fit its config.json, but got classifier.bias is missing."
    )


def test_an_option_that_there_is_not_is_refused(folder: Path):
    sentence = "what is set differently must be an option of GPT2, but got 'droput': did you mean 'dropout'?"
    assert said(GPT2, folder, droput=0.2) == sentence
    assert GPT2.from_pretrained(folder, dropout=0.2).blocks[0].attention_sum.dropout.p == 0.2


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_settings_are_named(folder: Path):
    path = folder / "config.json"
    path.write_text('{"model_type": "gpt2"')
    reason = "Expecting ',' delimiter: line 1 column 22 (char 21)"
    assert said(GPT2, folder, RunError) == f"{path} must be JSON, but got a file that cannot be read ({reason})."
    path.write_text("[1]")
    assert said(GPT2, folder, RunError) == f"{path} must be JSON with names and values, but got a list."


@pytest.mark.parametrize("keep", [0, 4, 100, -20])
def test_damaged_weights_are_named(folder: Path, keep: int):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    told = said(GPT2, folder, RunError)
    assert told.startswith(f"{path} must be a whole safetensors file, but got one that cannot be read (")


def sharded(folder: Path) -> Path:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    where = {name: f"model-{number % 3}.safetensors" for number, name in enumerate(weights)}
    for file in set(where.values()):
        save_file({name: tensor for name, tensor in weights.items() if where[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return folder


def test_several_files_are_one_model(folder: Path):
    tokens = torch.randint(11, (2, 6))
    whole = GPT2.from_pretrained(folder)(tokens)
    assert torch.equal(GPT2.from_pretrained(sharded(folder))(tokens), whole)


def test_a_file_that_the_index_names_and_that_is_not_there_is_named(folder: Path):
    (sharded(folder) / "model-1.safetensors").unlink()
    rule = f"{folder} must hold every file that model.safetensors.index.json names"
    assert said(GPT2, folder, RunError) == f"{rule}, but got none called model-1.safetensors."


def test_an_index_that_names_no_files_is_refused(folder: Path):
    index = sharded(folder) / "model.safetensors.index.json"
    index.write_text('{"weight_map": [1]}')
    assert (
        said(GPT2, folder, RunError)
        == f"{index} must say in weight_map which file holds which tensor, but got none that does."
    )


@pytest.mark.parametrize(
    "name",
    ["../outside.safetensors", "/etc/passwd", "deeper/model.safetensors", "..", "", "C:x", "a\\b", "x\0", "é" * 128],
)
def test_an_index_that_points_outside_its_folder_is_refused(folder: Path, name: str):
    index = sharded(folder) / "model.safetensors.index.json"
    save_file({"a": torch.zeros(1)}, folder.parent / "outside.safetensors")
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    assert said(GPT2, folder, RunError) == f"{index} must name files in its own folder, but got {name!r}."


OTHER_TYPES: dict[str, dict[str, Any]] = {
    "(unhashable type: 'list')": {"activation_function": ["gelu"]},
    "layers must be int, but got '12'.": {"n_layer": "12"},
    "must hold the settings of a model, but got one of another type or size (": {"n_embd": 10**40},
    "must hold a model of type gpt2, bert, clip, but got a model of type ['gpt2']": {"model_type": ["gpt2"]},
    "(argument of type 'int' is not iterable)": {"model_type": "bert", "architectures": 5},
}


def test_settings_of_other_types_and_sizes_get_a_sentence(folder: Path):
    """Where types are not checked, as in these tests."""
    code = """
import json, sys
from pathlib import Path
import neuropil
from neuropil.errors import NeuropilError
path = Path(sys.argv[1]) / "config.json"
good = json.loads(path.read_text())
for settings in json.loads(sys.argv[2]):
    path.write_text(json.dumps(good | settings))
    try:
        neuropil.open(path.parent)
    except NeuropilError as error:
        print(error)
"""
    words = [sys.executable, "-c", code, str(folder), json.dumps(list(OTHER_TYPES.values()))]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [part for part, sentence in zip(OTHER_TYPES, said, strict=True) if part not in sentence] == []


@pytest.mark.slow
def test_layers_without_end_get_a_sentence(folder: Path):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_layer": 10**9}))
    assert said(GPT2, folder, InputError) == (
        "a model must have at most 5,000 tensors, but got more: choose fewer layers."
    )


def test_settings_that_are_nested_without_end_get_a_sentence(folder: Path):
    path = folder / "config.json"
    path.write_text("[" * 200_000)
    assert said(GPT2, folder, RunError).startswith(f"{path} must be JSON, but got a file that cannot be read (")


# --- memory -----------------------------------------------------------------------------------------------------------


def files_at(tensor: torch.Tensor) -> str:
    """The file, if any, in whose pages a tensor lies."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= tensor.data_ptr() < last:
            return line.split(maxsplit=5)[5] if len(line.split()) > 5 else ""
    raise AssertionError("a tensor outside of all memory")


needs_maps = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="this system does not tell what lies where in memory"
)


@needs_maps
def test_weights_lie_in_the_pages_of_the_file(folder: Path):
    model = GPT2.from_pretrained(folder)
    assert {files_at(parameter) for parameter in model.parameters()} == {str(folder / "model.safetensors")}


@needs_maps
def test_what_is_put_into_rows_leaves_no_page_of_the_file_behind(folder: Path):
    model = GPT2.from_pretrained(folder)
    turned = [parameter for parameter in model.parameters() if not parameter.is_contiguous()]
    assert len(turned) == 4
    before = mappings_of(folder)
    for parameter in turned:
        parameter.data = parameter.data.contiguous()
    assert mappings_of(folder) == before - 4


@needs_maps
def test_what_is_joined_leaves_no_page_of_the_file_behind(tmp_path: Path):
    BERT(SMALL_BERT).save_pretrained(tmp_path)
    model = BERT.from_pretrained(tmp_path)
    joined = sum(
        files_at(parameter) == "" or str(tmp_path) not in files_at(parameter) for parameter in model.parameters()
    )
    assert joined == 2, "the weights of queries, keys and values, and their biases"
    assert mappings_of(tmp_path) == len(list(model.parameters())) - 2


@pytest.mark.parametrize(("kind", "config"), [(GPT2, SMALL), (BERT, SMALL_BERT)])
def test_loading_draws_no_random_numbers(kind: Any, config: Any, tmp_path: Path):
    kind(config).save_pretrained(tmp_path)
    before = torch.random.get_rng_state()
    kind.from_pretrained(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "model",
    [
        "gpt2:GPT2",
        pytest.param("bert:BERT", marks=pytest.mark.slow),
        pytest.param("vit:ViT", marks=pytest.mark.slow),
        "clip:CLIP",
    ],
)
def test_loading_imports_none_of_the_compiler(model: str, tmp_path: Path):
    """Which a random number on the meta device would, for seconds and 75 MB."""
    module, kind = model.split(":")
    program = (
        f"import sys\nfrom neuropil.models.{module} import {kind}, SIZES\n"
        f"{kind}(SIZES['tiny']).save_pretrained('{tmp_path}')\n"
        f"{kind}.from_pretrained('{tmp_path}')\nprint('torch._dynamo' in sys.modules)"
    )
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert told == "False\n"


def mappings_of(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_learning_never_reaches_the_file(folder: Path):
    before = (folder / "model.safetensors").read_bytes()
    model = GPT2.from_pretrained(folder).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.randint(11, (2, 6))).square().mean().backward()
    optimizer.step()
    assert (folder / "model.safetensors").read_bytes() == before
    model.save_pretrained(folder)
    assert (folder / "model.safetensors").read_bytes() != before
    assert all(parameter.isfinite().all() for parameter in model.parameters()), (
        "the old file's pages are still there to be read"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_precision_becomes_single(folder: Path, dtype: torch.dtype):
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    model = GPT2.from_pretrained(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.tokens.weight, weights["transformer.wte.weight"].float())
