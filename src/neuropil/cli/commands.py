"""Every command: how it is called, in one line what it does, its arguments, and what runs it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from neuropil import __version__
from neuropil.cli import inspect, lab, plan, serve, train, use, words
from neuropil.cli.arguments import parse
from neuropil.config import Config
from neuropil.errors import InputError, nearest


@dataclass(frozen=True)
class Command:
    """`arguments` makes the form that the words are read into; what is `positional` is given without a flag, and must
    be unless it is `optional` too."""

    usage: str
    summary: str
    run: Callable[[Any], None]
    arguments: Callable[[], Config]
    positional: tuple[str, ...] = ("run",)
    optional: tuple[str, ...] = ()


COMMANDS = {
    "list": Command("list", "every system with its family and one line", train.list_systems, train.ListArguments, ()),
    "show": Command(
        "show NAME | RUN",
        "a system's equations, options and data, what a run can do, or what a search found",
        train.show,
        train.ShowArguments,
        ("name",),
    ),
    "train": Command(
        "train NAME [--data PATH] [--epochs N | --minutes M] ...",
        "train, evaluate and write a report",
        train.train,
        train.ListArguments,
    ),
    "tune": Command(
        "tune NAME [--data PATH] [--trials 20] [--minutes M] [--workers N] ...",
        "choose hyper-parameters on the validation part",
        train.tune,
        train.ListArguments,
    ),
    "plan": Command(
        "plan NAME --gpus 8 --memory 80GB [--batch-size N] [--precision bfloat16] ...",
        "memory, communication and time of training on several devices",
        plan.plan,
        train.ListArguments,
    ),
    "simulate": Command(
        "simulate NAME | network.toml [--duration MS] ...",
        "run neurons in time and write a report",
        train.simulate,
        train.ListArguments,
    ),
    "resume": Command(
        "resume RUN", "go on with a run or a search that was stopped or killed", train.resume, train.RunArguments
    ),
    "predict": Command(
        "predict RUN INPUT...", "answers for new inputs", use.predict, use.PredictArguments, ("run", "inputs")
    ),
    "evaluate": Command(
        "evaluate RUN [--data PATH]",
        "scores on held-out or your own labelled data",
        use.evaluate,
        use.EvaluateArguments,
    ),
    "translate": Command(
        'translate RUN ["TEXT" | FILE ...] [--beam N]',
        "translate texts, files or standard input",
        use.translate,
        use.TranslateArguments,
        ("run", "texts"),
        ("texts",),
    ),
    "generate": Command(
        'generate MODEL ["PROMPT"] [--temperature 0.8] [--precision int8]',
        "generate text after a prompt",
        use.generate,
        use.generate_arguments,
        ("run", "prompt"),
        ("prompt",),
    ),
    "fill": Command(
        'fill MODEL "Paris is the [MASK] of France"',
        "fill in masked words",
        use.fill,
        use.FillArguments,
        ("run", "texts"),
    ),
    "classify": Command(
        'classify MODEL ["TEXT" | FILE ...]',
        "classify texts",
        use.classify,
        use.ClassifyArguments,
        ("run", "texts"),
        ("texts",),
    ),
    "embed": Command(
        'embed MODEL ["TEXT" | FILE ...] [--out vectors.npy]',
        "an embedding for each text, and their similarities",
        use.embed,
        use.EmbedArguments,
        ("run", "texts"),
        ("texts",),
    ),
    "search": Command(
        'search MODEL "TEXT" --images DIR',
        "find pictures by a text or by another picture",
        use.search,
        use.SearchArguments,
        ("run", "texts"),
        ("texts",),
    ),
    "neighbours": Command(
        "neighbours VECTORS WORD... [--negative WORD] [--count 10]",
        "the most similar words, by their vectors",
        words.neighbours,
        words.NeighboursArguments,
        ("run", "words"),
        ("words",),
    ),
    "analogy": Command(
        "analogy VECTORS king man woman",
        "complete an analogy: king − man + woman",
        words.analogy,
        words.AnalogyArguments,
        ("run", "a", "b", "c"),
    ),
    "odd-one-out": Command(
        "odd-one-out VECTORS WORD WORD WORD...",
        "the word that does not belong to the others",
        words.odd_one_out,
        words.OddOneOutArguments,
        ("run", "words"),
    ),
    "sample": Command(
        "sample RUN [--count 64] [--class NAME] [--out grid.png]",
        "make new examples with a generative model",
        use.sample,
        use.SampleArguments,
    ),
    "reconstruct": Command(
        "reconstruct RUN INPUT... [--out grid.png]",
        "encode examples and decode them again",
        use.reconstruct,
        use.ReconstructArguments,
        ("run", "inputs"),
    ),
    "interpolate": Command(
        "interpolate RUN A B [--steps 8] [--out grid.png]",
        "examples on the way from one to another",
        use.interpolate,
        use.InterpolateArguments,
        ("run", "first", "last"),
    ),
    "recall": Command(
        "recall RUN INPUT... [--out grid.png]",
        "the stored patterns that damaged ones settle at",
        use.recall,
        use.RecallArguments,
        ("run", "inputs"),
    ),
    "attack": Command(
        "attack RUN [INPUT...] [--eps 0.1] [--minimal | --strongest] ...",
        "adversarial examples, and the accuracy that they leave",
        use.attack,
        use.attack_arguments,
        ("run", "inputs"),
        ("inputs",),
    ),
    "export": Command(
        "export RUN [--out model.onnx | model.nir | vectors.bin]",
        "write the model as ONNX, a spiking classifier as NIR, or word vectors as word2vec or GloVe",
        use.export,
        use.ExportArguments,
    ),
    "prune": Command(
        "prune RUN --heads 50%", "remove the least important attention heads", inspect.prune, inspect.PruneArguments
    ),
    "report": Command("report RUN", "evaluate again and rewrite the report", train.report, train.RunArguments),
    "compare": Command(
        "compare RUN RUN...",
        "runs side by side: scores, and options that differ",
        inspect.compare,
        inspect.CompareArguments,
        ("runs",),
    ),
    "inspect": Command(
        'inspect RUN [--gradients] [--signal] [--attention "TEXT"] ...',
        "look inside a trained model",
        inspect.inspect,
        inspect.InspectArguments,
    ),
    "lab": Command(
        "lab [--runs DIR] [--port N]",
        "a page in the browser: train, watch and question every network",
        lab.lab,
        lab.LabArguments,
        (),
    ),
    "serve": Command(
        "serve RUN... [--port N] [--slots 16] [--token T]",
        "answer requests over HTTP, as OpenAI's API does",
        serve.serve,
        serve.serve_arguments,
        ("runs",),
    ),
}

STARTED_BY_NAME = {
    "train": ("NAME", ""),
    "tune": ("NAME", ""),
    "plan": ("NAME", "gpt2, gpt2-medium, gpt2-large and gpt2-xl are the published sizes."),
    "simulate": ("NAME | network.toml", "network.toml describes a spiking network of your own."),
}
"""Commands whose options depend on the system that is named first."""

DONE_TOGETHER = ("train", "simulate", "resume")
"""Commands that torchrun may start in many processes."""


def run_command(arguments: list[str]) -> None:
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        _print_help()
        return
    if arguments[0] == "--version":
        print(f"neuropil {__version__}")
        return
    name, *rest = arguments
    if name == "--completion":
        from neuropil.cli.completion import script

        print(script(rest))
        return
    if name not in COMMANDS:
        fix = nearest(name, COMMANDS)
        raise InputError("a command must be one that `neuropil --help` shows", got=f"{name!r}", fix=fix)
    _meet_others(name)
    command = COMMANDS[name]
    if name not in STARTED_BY_NAME:
        about = f"{command.summary[0].upper()}{command.summary[1:]}."
        form, positional, optional = command.arguments(), command.positional, command.optional
        command.run(parse(form, rest, command=name, about=about, positional=positional, optional=optional))
    elif not rest or rest[0] in ("-h", "--help"):
        train.print_names(name, *STARTED_BY_NAME[name])
    else:
        command.run(rest)


def _meet_others(name: str) -> None:
    """Those that torchrun has started with this process, before any of them can fail alone."""
    from neuropil.training.distributed.processes import place_in, world

    size = place_in(os.environ).size
    if size > 1 and name not in DONE_TOGETHER:
        fix = "start it without torchrun"
        raise InputError(f"neuropil {name} is the work of one process", got=f"{size} of them", fix=fix)
    world()


def _print_help() -> None:
    print("neuropil: every network from the biological neuron to the transformer\n\nusage: neuropil COMMAND ...\n")
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        print(f"  {command.usage:<{width}}  {command.summary}")
    print("\nMODEL is a run folder, a Hugging Face folder, or owner/name on its hub.")
    print("VECTORS is a run folder, or a file of word vectors (word2vec text or binary, GloVe; plain or gzip).")
    print("neuropil COMMAND --help explains a command; neuropil train NAME --help lists all options of a system.")
    print("neuropil --completion bash | zsh | fish prints what completes these words in a shell.")
