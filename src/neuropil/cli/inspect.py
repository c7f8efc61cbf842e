"""Commands that look into trained models, change them, and set them side by side."""

from pathlib import Path
from typing import Literal

from neuropil.cli.arguments import Arguments
from neuropil.cli.output import print_json, print_outcome, print_table
from neuropil.config import option
from neuropil.errors import InputError


class InspectArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    gradients: bool = option(False, "gradient norm per layer on a batch of training data, and what it means")
    signal: bool = option(False, "mean, spread and saturation of each layer on a batch of training data, in words too")
    activations: Path | None = option(None, "a picture: the activation maps of every layer of a cnn")
    gates: str | None = option(None, "a text, or a file: the gates of recurrent cells while it is read")
    attention: str | None = option(None, "a text, or a file: the attention of every head of gpt2 or bert")
    lens: str | None = option(None, "a text, or a file: the logit lens of gpt2, after each of its blocks")
    neighbours: str | None = option(None, "tokens, such as a word: their nearest neighbours in the embedding")


def inspect(arguments: InspectArguments) -> None:
    asked = (arguments.activations, arguments.gates, arguments.attention, arguments.lens, arguments.neighbours)
    if not (arguments.gradients or arguments.signal) and all(what is None for what in asked):
        texts = '--gates "a text", --attention "a text", --lens "a text" or --neighbours "a word"'
        ways = f"--gradients, --signal, --activations picture.png, {texts}"
        raise InputError("neuropil inspect needs to know what to look at", got="nothing", fix=f"add {ways}")
    from neuropil.runs import run
    from neuropil.runs.pages import activations, attention, gates, gradients, signal

    opened, pages = run.load(arguments.run), []
    if arguments.gradients:
        pages.append(gradients.write_gradients(opened))
    if arguments.signal:
        pages.append(signal.write_signal(opened))
    if arguments.activations is not None:
        pages.append(activations.write_activations(opened, arguments.activations))
    if arguments.gates is not None:
        pages.append(gates.write_gates(opened, gates.text_of(arguments.gates)))
    if arguments.attention is not None:
        pages.append(attention.write_attention(opened, gates.text_of(arguments.attention)))
    if arguments.lens is not None:
        pages.append(attention.write_lens(opened, gates.text_of(arguments.lens)))
    if arguments.neighbours is not None:
        pages.append(attention.write_neighbours(opened, arguments.neighbours))
    for path, sentences in pages:
        if arguments.json:
            print_json({"page": path, "sentences": sentences})
            continue
        print("\n".join([*sentences, str(path)]))


class PruneArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    heads: str = option("50%", "attention heads to remove: a share or a number")
    by: Literal["gradient", "leave_one_out"] = option("gradient", "importance score of a head")
    out: Path | None = option(None, "folder to write; without it, a new one beside the run")


def prune(arguments: PruneArguments) -> None:
    from neuropil.runs import pruning, run

    pruned = pruning.prune(run.load(arguments.run), arguments.heads, by=arguments.by, out=arguments.out)
    print_outcome(pruned, as_json=arguments.json)


class CompareArguments(Arguments):
    runs: tuple[Path, ...] = option((), "two or more run folders")


def compare(arguments: CompareArguments) -> None:
    from neuropil.runs.comparison import compare

    header, rows = compare(arguments.runs)
    if not arguments.json:
        print_table(header, rows)
        return
    from neuropil.runs import run

    for folder in arguments.runs:
        opened = run.load(folder)
        options = {each.name: each.default for each in opened.options.options()}
        about = {"run": folder, "system": opened.name, "seed": opened.seed}
        print_json({**about, "metrics": opened.metrics, "options": options})
