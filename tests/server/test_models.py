from collections.abc import Callable
from pathlib import Path

import pytest

from model_server import Serving, serving_thread
from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2
from neuropil.runs.run import load
from neuropil.runs.start import train
from neuropil.server.config import ServerConfig
from neuropil.server.models import open_models
from neuropil.server.prometheus import Figures


def refusal(*sources: str, precision: str = "float32") -> str:
    with pytest.raises(InputError) as caught:
        open_models(sources, ServerConfig(precision=precision), Figures())
    return str(caught.value)


def test_models_may_have_names_of_their_own(run_folder: Callable[[str], Path]):
    folder = run_folder("lstm")
    assert refusal(str(folder), str(folder)) == (
        "models that are served together must differ in name, but got 'lstm' twice: "
        f"give it another name: other={folder}."
    )
    models = open_models([str(folder), f"other={folder}"], ServerConfig(), Figures())
    assert list(models.named) == ["lstm", "other"]
    models.close()
    assert not models.alive


def test_a_model_that_nothing_can_be_asked_of_is_refused(tmp_path: Path):
    train("hopfield", out=tmp_path / "memory", show_progress=False, report=False)
    assert refusal(str(tmp_path / "memory")) == (
        "a model to serve must do one of /v1/completions, /v1/embeddings, /v1/classify, /v1/translate, /v1/forecast, "
        "/v1/fill, /v1/tag, but got memory, which recalls stored patterns."
    )


def test_a_folder_of_hugging_face_is_served(run_folder: Callable[[str], Path], tmp_path: Path):
    run = load(run_folder("gpt2"))
    model = run.model
    assert isinstance(model, GPT2)
    model.save_pretrained(tmp_path / "published")
    run.predictor.tokenizer.save(tmp_path / "published")
    with serving_thread([str(tmp_path / "published")], slots=2) as served:
        # The only one, which need not be named.
        answer = served.ask("/v1/completions", {"prompt": "12 is", "max_tokens": 9, "temperature": 0}).json()
    assert answer["model"] == "published"
    assert "12 is" + answer["choices"][0]["text"] == "".join(run.generate("12 is", length=9, temperature=0.0))


def test_in_eight_bits_a_text_is_the_one_of_the_run_in_eight_bits(serving: Serving, run_folder: Callable[[str], Path]):
    run = load(run_folder("gpt2"))
    asked = {"prompt": "12 is", "max_tokens": 9, "temperature": 0}
    with serving("gpt2", "lstm", "text_classifier", slots=2, precision="int8") as served:
        answer = served.ask("/v1/completions", {"model": "gpt2", **asked}).json()
        other = served.ask("/v1/completions", {"model": "lstm", **asked}).json()
    alone = "".join(run.generate("12 is", length=9, temperature=0.0, precision="int8"))
    assert "12 is" + answer["choices"][0]["text"] == alone
    alone = "".join(load(run_folder("lstm")).generate("12 is", length=9, temperature=0.0))
    assert "12 is" + other["choices"][0]["text"] == alone


def test_a_precision_is_refused_where_there_is_no_gpt2(run_folder: Callable[[str], Path]):
    sources = [str(run_folder("text_classifier")), str(run_folder("lstm"))]
    said = "precision is that of GPT-2 models, but got int8 for text_classifier, lstm: leave it out."
    assert refusal(*sources, precision="int8") == said
    said = "precision must be float32, bfloat16, int8 or int4, but got int3: did you mean 'int8'?"
    assert refusal(str(run_folder("gpt2")), precision="int3") == said
