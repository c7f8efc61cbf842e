"""One library's side of `benchmarks.decoding`: a process that holds GPT-2 in several kinds of weights, and writes and
scores with them when it is told to. What a library makes of the folder is kept beside the folder's own files.

Every library decodes greedily by the fastest way that it offers to one text, with its own defaults but for the number
of threads; a first token and those after it are timed apart."""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workers import answer_requests

POSITIONS = "transformer.wpe.weight"
LLAMA_FILES = {"float32": 0, "Q4_0": 2, "Q8_0": 7, "BF16": 32}
"""By llama.cpp's `enum llama_ftype`."""


class Engine(ABC):
    """GPT-2 of one kind of weights in one library."""

    bytes_read: int
    """For one token: every weight but the positions', of which one row is read."""

    @abstractmethod
    def write(self, prompt: Sequence[int], new: int, told: Callable[[], None]) -> None:
        """So many tokens after the prompt; `told` is called after each."""

    @abstractmethod
    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """After each token, computed as in writing: one token at a time, where the library is given one at a time."""


class Steps(Engine):
    """A library that is called for every token."""

    @abstractmethod
    def begin(self) -> None:
        """Forget the text."""

    @abstractmethod
    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Logits of what follows."""

    def write(self, prompt: Sequence[int], new: int, told: Callable[[], None]) -> None:
        self.begin()
        entering = list(prompt)
        for _ in range(new):
            entering = [int(self.step(entering).argmax())]
            told()

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        self.begin()
        return np.stack([self.step([token]).copy() for token in tokens])


class Neuropil(Steps):
    def __init__(self, folder: Path, precision: str, threads: int):
        import torch

        from neuropil.models.gpt2 import GPT2
        from neuropil.sampling.gpt2_cpu.decoder import FastDecoder

        torch.set_num_threads(threads)
        self.decoder = FastDecoder(GPT2.from_pretrained(folder), precision)
        self.bytes_read = bytes_read(self.decoder)
        self.tensor = torch.tensor

    def begin(self) -> None:
        self.state = self.decoder.begin()

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        return self.decoder.step(self.tensor([tokens]), self.state)[0].numpy()


def bytes_read(decoder: Any) -> int:
    """For one token: every matrix with its scales and biases; keys, values and norms are next to nothing."""
    matrices = [matrix for layer in decoder.layers for matrix in layer.matrices]
    return sum(array.nbytes for matrix in [*matrices, decoder.output] for array in matrix)


class HuggingFace(Engine):
    def __init__(self, folder: Path, precision: str, threads: int):
        import torch
        from transformers import GPT2LMHeadModel

        torch.set_num_threads(threads)
        self.torch = torch
        self.model: Any = GPT2LMHeadModel.from_pretrained(folder, dtype=getattr(torch, precision))
        read = [value for name, value in self.model.named_parameters() if name != POSITIONS]
        self.bytes_read = sum(value.numel() * value.element_size() for value in read)

    def write(self, prompt: Sequence[int], new: int, told: Callable[[], None]) -> None:
        tokens = self.torch.tensor([prompt])
        self.model.generate(
            tokens,
            attention_mask=self.torch.ones_like(tokens),
            min_new_tokens=new,
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
            streamer=Streamer(told),
        )

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        with self.torch.no_grad():
            return self.model(self.torch.tensor([tokens])).logits[0].float().numpy()


class Streamer:
    """What `generate` tells of each token, and first of the prompt."""

    def __init__(self, told: Callable[[], None]):
        self.told, self.prompt = told, True

    def put(self, value: Any) -> None:
        if not self.prompt:
            self.told()
        self.prompt = False

    def end(self) -> None:
        pass


class CTranslate2(Engine):
    def __init__(self, folder: Path, precision: str, threads: int):
        import ctranslate2

        converted = folder / f"ctranslate2-{precision}"
        if not converted.exists():
            ctranslate2.converters.TransformersConverter(str(folder)).convert(str(converted), quantization=precision)
        self.generator = ctranslate2.Generator(
            str(converted), device="cpu", compute_type=precision, intra_threads=threads
        )
        self.words = json.loads((converted / "vocabulary.json").read_text())
        self.bytes_read = (converted / "model.bin").stat().st_size - positions_of(folder).nbytes

    def write(self, prompt: Sequence[int], new: int, told: Callable[[], None]) -> None:
        self.generator.generate_batch(
            [[self.words[token] for token in prompt]],
            min_length=new,
            max_length=new,
            sampling_topk=1,
            include_prompt_in_result=False,
            callback=lambda result: told(),  # and none that asks to stop
        )

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        return np.array(self.generator.forward_batch([list(tokens)]))[0]


class LlamaCpp(Steps):
    """The file is written in float32 and quantised by llama.cpp's own `llama_model_quantize`, as its users do it."""

    def __init__(self, folder: Path, precision: str, threads: int):
        import llama_cpp  # pyright: ignore[reportMissingImports]

        self.llama = llama_cpp
        self.said = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept as long as it is called
        llama_cpp.llama_log_set(self.said, None)
        file = folder / f"{precision}.gguf"
        if not file.exists():
            source = write_gguf(folder)
            if precision != "float32":
                wanted = llama_cpp.llama_model_quantize_default_params()
                wanted.ftype, wanted.nthread = LLAMA_FILES[precision], threads
                require(llama_cpp.llama_model_quantize(str(source).encode(), str(file).encode(), wanted), "quantise")
        self.bytes_read = file.stat().st_size - positions_of(folder).nbytes
        model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = len(positions_of(folder))
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(model, options)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.num_tokens = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def begin(self) -> None:
        self.llama.llama_memory_clear(self.memory, False)

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        given = (self.llama.llama_token * len(tokens))(*tokens)
        require(self.llama.llama_decode(self.context, self.llama.llama_batch_get_one(given, len(tokens))), "decode")
        return np.ctypeslib.as_array(self.llama.llama_get_logits_ith(self.context, -1), (self.num_tokens,))


def require(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"llama.cpp could not {what}: {code}")


def write_gguf(folder: Path) -> Path:
    """Hugging Face's folder as llama.cpp reads it: matrices the other way round, and no vocabulary."""
    from gguf import GGUFWriter  # pyright: ignore[reportMissingImports]
    from safetensors.numpy import load_file

    settings, tensors = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    file = folder / "float32.gguf"
    writer = GGUFWriter(file, "gpt2")
    writer.add_file_type(0)
    writer.add_context_length(settings["n_positions"])
    writer.add_embedding_length(settings["n_embd"])
    writer.add_feed_forward_length(settings.get("n_inner") or 4 * settings["n_embd"])
    writer.add_block_count(settings["n_layer"])
    writer.add_head_count(settings["n_head"])
    writer.add_layer_norm_eps(settings["layer_norm_epsilon"])
    writer.add_vocab_size(settings["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    names = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}
    layers = {
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    }
    for theirs, ours in layers.items():
        names |= {f"transformer.h.{i}.{theirs}": f"blk.{i}.{ours}" for i in range(settings["n_layer"])}
    for theirs, ours in names.items():
        for part in ("weight", "bias"):
            if (values := tensors.get(f"{theirs}.{part}")) is not None:
                turned = values.T if ".c_" in theirs and part == "weight" else values
                writer.add_tensor(f"{ours}.{part}", np.ascontiguousarray(turned, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def positions_of(folder: Path) -> np.ndarray:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "np") as tensors:
        return tensors.get_tensor(POSITIONS)


class OpenVINO(Steps):
    """Converted by optimum-intel with the cache of keys and values inside; int8 is what it calls 8 bits, weights with a
    scale and a zero point a row, multiplied with activations that are rounded as they come."""

    def __init__(self, folder: Path, precision: str, threads: int):
        import openvino  # pyright: ignore[reportMissingImports]

        converted = folder / ("openvino-int8" if precision == "int8" else "openvino-float32")
        if not converted.exists():
            modules: Any = sys.modules
            modules["torchvision"] = (
                None  # comes with optimum-intel, and its build may be one for another build of torch
            )
            from optimum.intel import (  # pyright: ignore[reportMissingImports]
                OVModelForCausalLM,
                OVWeightQuantizationConfig,
            )

            rounding = OVWeightQuantizationConfig(bits=8) if precision == "int8" else None
            options: Any = {"export": True, "compile": False, "quantization_config": rounding}
            if rounding is None:
                options["load_in_8bit"] = False
            OVModelForCausalLM.from_pretrained(folder, **options).save_pretrained(converted)
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        if precision != "int8":  # by itself it computes in bfloat16 where the processor does
            settings["INFERENCE_PRECISION_HINT"] = {"float32": "f32", "bfloat16": "bf16"}[precision]
        model = openvino.Core().compile_model(converted / "openvino_model.xml", "CPU", settings)
        self.request = model.create_infer_request()
        self.named = {name for given in model.inputs for name in given.names}
        positions = positions_of(folder).size * (1 if precision == "int8" else 4)  # which are rounded too
        stored = (converted / "openvino_model.bin").stat().st_size - positions
        self.bytes_read = stored // 2 if precision == "bfloat16" else stored  # of which weights are made at first

    def begin(self) -> None:
        self.request.reset_state()
        self.length = 0

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        start, self.length = self.length, self.length + len(tokens)
        given = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, self.length), np.int64),
            "position_ids": np.arange(start, self.length, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self.request.infer({name: value for name, value in given.items() if name in self.named}, share_inputs=True)
        return self.request.get_output_tensor(0).data[0, -1]


ENGINES: dict[str, type[Any]] = {
    "neuropil": Neuropil,
    "Hugging Face": HuggingFace,
    "CTranslate2": CTranslate2,
    "llama.cpp": LlamaCpp,
    "OpenVINO": OpenVINO,
}


class Worker:
    def __init__(self, library: str):
        self.kind = ENGINES[library]
        self.engines: dict[str, Engine] = {}

    def load(self, folder: str, precision: str, threads: int) -> int:
        """The bytes that one token needs."""
        self.engines[precision] = self.kind(Path(folder), precision, threads)
        return self.engines[precision].bytes_read

    def write(self, precision: str, prompt: list[int], new: int) -> list[float]:
        """Seconds to the first token, and of those after it."""
        moments = [time.perf_counter()]
        self.engines[precision].write(prompt, new, lambda: moments.append(time.perf_counter()))
        if len(moments) != new + 1:
            raise RuntimeError(f"{len(moments) - 1} tokens came instead of {new}")
        return [moments[1] - moments[0], moments[-1] - moments[1]]

    def logits(self, precision: str, tokens: list[list[int]], out: str) -> None:
        """Of all texts, which are equally long, into a file."""
        np.save(out, np.stack([self.engines[precision].logits(text) for text in tokens]))


if __name__ == "__main__":
    answer_requests(lambda: Worker(sys.argv[1]))
