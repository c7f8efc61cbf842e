"""What each command prints."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from neuropil import __version__
from neuropil.cli.arguments import parse
from neuropil.config import Config, describe_type, option
from neuropil.errors import InputError, nearest

if TYPE_CHECKING:
    from neuropil.runs.run import Run


@dataclass(frozen=True)
class Command:
    usage: str
    summary: str
    run: Callable[[list[str]], None]


def run_command(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help", "help"):
        _print_help()
    elif words[0] == "--version":
        print(f"neuropil {__version__}")
    elif words[0] in COMMANDS:
        COMMANDS[words[0]].run(words[1:])
    else:
        raise InputError(
            "a command must be one that `neuropil --help` shows", got=f"{words[0]!r}", fix=nearest(words[0], COMMANDS)
        )


def list_systems(words: list[str]) -> None:
    parse(_NoArguments(), words, command="list", about="Every system with its family and one line.")
    from neuropil.recipes import SYSTEMS

    _print_table(
        ["system", "family", "what it is"], [[system.name, system.family, system.summary] for system in SYSTEMS]
    )


class _NoArguments(Config):
    pass


class _ShowArguments(Config):
    name: str = option("", "a system that `neuropil list` shows")


def show(words: list[str]) -> None:
    arguments = parse(
        _ShowArguments(), words, command="show", about="A system's equations, options and data.", positional=["name"]
    )
    import importlib

    from neuropil import recipes

    system = recipes.find(arguments.name)
    about = importlib.import_module(f"neuropil.{system.about}")
    print(f"{system.name} ({system.family}): {system.summary}\n\n{(about.__doc__ or '').strip()}\n")
    recipe = recipes.recipe(system.name)
    print(f"Options of neuropil {recipe.verb} {system.name}:")
    options = recipe.options.options()
    _print_table(
        ["option", "type", "default", "meaning"],
        [[f"--{o.name.replace('_', '-')}", describe_type(o.type), _default(o.default), o.help] for o in options],
    )


class _StartArguments(Config):
    recipe: Config
    out: Path | None = option(None, "folder to write; without it, a new one under runs/")
    seed: int = option(0, "the same seed gives the same results", low=0)


class _TrainArguments(_StartArguments):
    explain: bool = option(False, "say how each recurrent cell is going to be run, and do not train")


def train(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        _print_names("train", "NAME")
        return
    from neuropil import recipes

    system, recipe = recipes.find(words[0]), recipes.recipe_for("train", words[0])
    own_data = any(word.partition("=")[0] == "--data" for word in words)
    defaults = recipe.defaults(own_data=own_data)
    arguments = parse(
        _TrainArguments(recipe=defaults), words[1:], command=f"train {system.name}", about=f"Train: {system.summary}."
    )
    chosen = _changes(defaults, arguments.recipe)
    from neuropil.runs import run
    from neuropil.runs.pages import gradients as inspecting

    if arguments.explain:
        _print_table(*inspecting.execution_table(system.name, arguments.seed, chosen))
        return
    _print_outcome(run.train(system.name, out=arguments.out, seed=arguments.seed, **chosen))


def simulate(words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        _print_names("simulate", "NAME | network.toml", "network.toml describes a spiking network of your own.")
        return
    from neuropil import recipes

    system, _ = recipes.find_simulation(words[0])
    recipe, about = recipes.recipe_for("simulate", system.name), f"Simulate: {system.summary}."
    arguments = parse(_StartArguments(recipe=recipe.options), words[1:], command=f"simulate {words[0]}", about=about)
    from neuropil.runs import run

    _print_outcome(
        run.simulate(words[0], out=arguments.out, seed=arguments.seed, **_changes(recipe.options, arguments.recipe))
    )


def _print_names(verb: str, usage: str, more: str = "") -> None:
    from neuropil.recipes import SYSTEMS

    names = ", ".join(system.name for system in SYSTEMS if system.verb == verb)
    print(f"usage: neuropil {verb} {usage} [options]\n\nNAME is one of {names}.", more, sep="\n" if more else "")
    print(f"neuropil {verb} NAME --help lists the options of that system.")


def _changes(defaults: Config, given: Config) -> dict[str, Any]:
    """What was chosen otherwise than by default."""
    pairs = zip(defaults.options(), given.options(), strict=True)
    return {chosen.name: chosen.default for default, chosen in pairs if chosen.default != default.default}


class _RunArguments(Config):
    run: Path = option(Path(), "a run folder")


def resume(words: list[str]) -> None:
    arguments = parse(
        _RunArguments(),
        words,
        command="resume",
        about="Go on with a run that was stopped or killed.",
        positional=["run"],
    )
    from neuropil.runs import run

    _print_outcome(run.resume(arguments.run))


def report(words: list[str]) -> None:
    arguments = parse(
        _RunArguments(),
        words,
        command="report",
        about="Evaluate a run again and rewrite its report.",
        positional=["run"],
    )
    from neuropil.runs import run

    print(run.rewrite_report(arguments.run).report)


class _PredictArguments(Config):
    run: Path = option(Path(), "a run folder")
    inputs: tuple[Path, ...] = option(
        (), "files like those the model was trained on: pictures, IDX, NPZ, CSV, lines of text"
    )


def predict(words: list[str]) -> None:
    arguments = parse(
        _PredictArguments(),
        words,
        command="predict",
        about="Answers for new inputs, one line each.",
        positional=["run", "inputs"],
    )
    from neuropil.runs import run

    trained = run.load(arguments.run).trained
    if not arguments.inputs:
        raise InputError(
            "neuropil predict needs files to look at", got="none", fix=f"neuropil predict {arguments.run} picture.png"
        )
    inputs, names = trained.read(arguments.inputs)
    for name, cells in zip(names, trained.predict(inputs).lines(), strict=True):
        print("\t".join([name, *cells]))


class _EvaluateArguments(Config):
    run: Path = option(Path(), "a run folder")
    data: tuple[Path, ...] = option((), "labelled files of your own; without it, the run's held-out part")


def evaluate(words: list[str]) -> None:
    arguments = parse(
        _EvaluateArguments(), words, command="evaluate", about="Scores of a trained model.", positional=["run"]
    )
    from neuropil.metrics import find_metric
    from neuropil.runs import run

    metrics = run.load(arguments.run).evaluate(arguments.data or None)
    _print_table(["metric", "value"], [[name, find_metric(name).text(value)] for name, value in metrics.items()])


class _CompareArguments(Config):
    runs: tuple[Path, ...] = option((), "two or more run folders")


def compare(words: list[str]) -> None:
    arguments = parse(
        _CompareArguments(),
        words,
        command="compare",
        about="Runs side by side: scores, and options that differ.",
        positional=["runs"],
    )
    from neuropil.runs import comparison, run

    if len(arguments.runs) < 2:
        raise InputError("neuropil compare needs two or more runs", got=f"{len(arguments.runs)}")
    _print_table(*comparison.compare([run.load(folder) for folder in arguments.runs]))


class _InspectArguments(Config):
    run: Path = option(Path(), "a run folder")
    gradients: bool = option(False, "gradient norm per layer on a batch of training data, and what it means")
    gates: str | None = option(None, "a text, or a file: what the gates of recurrent cells do while it is read")
    attention: str | None = option(
        None, "a text, or a file: which token looks at which, for every head of gpt2 or bert"
    )
    lens: str | None = option(None, "a text, or a file: what gpt2 would say next after each of its blocks")
    neighbours: str | None = option(None, "tokens, such as a word: those that the model takes for most alike")


def inspect(words: list[str]) -> None:
    arguments = parse(
        _InspectArguments(), words, command="inspect", about="Look inside a trained model.", positional=["run"]
    )
    if not arguments.gradients and {arguments.gates, arguments.attention, arguments.lens, arguments.neighbours} == {
        None
    }:
        ways = '--gradients, --gates "a text", --attention "a text", --lens "a text" or --neighbours "a word"'
        raise InputError("neuropil inspect needs to know what to look at", got="nothing", fix=f"add {ways}")
    from neuropil.runs import run
    from neuropil.runs.pages import attention as attention_report
    from neuropil.runs.pages import gates as gate_report
    from neuropil.runs.pages import gradients as inspecting

    opened, pages = run.load(arguments.run), []
    if arguments.gradients:
        pages.append(inspecting.write_gradients(opened))
    if arguments.gates is not None:
        pages.append(gate_report.write_gates(opened, gate_report.text_of(arguments.gates)))
    if arguments.attention is not None:
        pages.append(attention_report.write_attention(opened, gate_report.text_of(arguments.attention)))
    if arguments.lens is not None:
        pages.append(attention_report.write_lens(opened, gate_report.text_of(arguments.lens)))
    if arguments.neighbours is not None:
        pages.append(attention_report.write_neighbours(opened, arguments.neighbours))
    for path, sentences in pages:
        print("\n".join([*sentences, str(path)]))


class _TranslateArguments(Config):
    run: Path = option(Path(), "a run folder")
    texts: tuple[str, ...] = option(
        (), "texts to translate, or files with a text on each line; without any, lines of standard input"
    )
    beam: int = option(1, "how many beginnings of a translation to follow at once; 1 is greedy", low=1)
    length_penalty: float = option(0.6, "how much a beam favours long translations; 0 for not at all", low=0)
    attention: Path | None = option(None, "also write a page that shows where the model looked")


def translate(words: list[str]) -> None:
    arguments = parse(
        _TranslateArguments(),
        words,
        command="translate",
        about="Translate texts, a line each.",
        positional=["run", "texts"],
        optional=["texts"],
    )
    from neuropil.runs import run
    from neuropil.tasks.translation import translating

    translator = run.load(arguments.run).translator
    texts = translating.texts_of(arguments.texts, sys.stdin)
    for text, translation in translating.translated(
        translator, texts, beam=arguments.beam, length_penalty=arguments.length_penalty, attention=arguments.attention
    ):
        # A person has forgotten the question when the answer comes; another program wants the answer alone.
        print(f"{text}  →  {translation}" if sys.stdout.isatty() and arguments.texts else translation, flush=True)
    if arguments.attention is not None:
        print(arguments.attention, file=sys.stderr)


class _GenerateArguments(Config):
    run: str = option("", "a run folder, a folder of Hugging Face's with GPT-2 in it, or its name on the hub")
    prompt: str = option("", "the beginning of the text; without one, what the model takes for a beginning")
    generating: Config


def generate(words: list[str]) -> None:
    from neuropil.runs import open as opening
    from neuropil.tasks.language_modelling import generation as generating

    arguments = parse(
        _GenerateArguments(generating=generating.GeneratingConfig()),
        words,
        command="generate",
        about="Go on with a text.",
        positional=["run", "prompt"],
        optional=["prompt"],
    )
    config = cast("generating.GeneratingConfig", arguments.generating)
    for piece in generating.generated(opening.writer(arguments.run), arguments.prompt, config, _tell):
        print(piece, end="", flush=True)


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


class _FillArguments(Config):
    run: str = option(
        "", "a run folder of bert, a folder of Hugging Face's with a BERT in it that fills, or its name on the hub"
    )
    texts: tuple[str, ...] = option((), "texts in which [MASK] stands for each hidden word")
    top: int = option(5, "how many words to show for each place", low=1)


def fill(words: list[str]) -> None:
    arguments = parse(_FillArguments(), words, command="fill", about="Find hidden words.", positional=["run", "texts"])
    from neuropil.runs import open as opening

    filler = opening.filler(arguments.run)
    for text in arguments.texts:
        rows = [
            [f"{each.place}", each.word, f"{100 * each.share:.1f} %", each.text]
            for each in filler.fill(text, arguments.top)
        ]
        _print_table(["place", "word", "share", "text"], rows)


class _ClassifyArguments(Config):
    run: str = option(
        "", "a run folder of a text classifier, a folder of Hugging Face's with such a BERT, or its name on the hub"
    )
    texts: tuple[str, ...] = option(
        (), "texts, or files with a text on each line; without any, lines of standard input"
    )


def classify(words: list[str]) -> None:
    arguments = parse(
        _ClassifyArguments(),
        words,
        command="classify",
        about="The classes of texts.",
        positional=["run", "texts"],
        optional=["texts"],
    )
    from neuropil.runs import open as opening
    from neuropil.tasks.translation import translating

    classifier = opening.classifier(arguments.run)
    for texts in translating.texts_of(arguments.texts, sys.stdin):
        for text, cells in zip(texts, classifier.predict(texts).lines(), strict=True):
            print("\t".join([text, *cells]), flush=True)


class _EmbedArguments(Config):
    run: str = option("", "a run folder of bert, a folder of Hugging Face's with a BERT in it, or its name on the hub")
    texts: tuple[str, ...] = option(
        (), "texts, or files with a text on each line; without any, lines of standard input"
    )
    out: Path | None = option(None, "write the vectors to this .npy file, a row for each text")


def embed(words: list[str]) -> None:
    arguments = parse(
        _EmbedArguments(),
        words,
        command="embed",
        about="A vector for each text.",
        positional=["run", "texts"],
        optional=["texts"],
    )
    from neuropil.runs import open as opening
    from neuropil.tasks import embedding

    texts = embedding.texts_of(arguments.texts, sys.stdin)
    vectors = opening.embedder(arguments.run).embed(texts)
    if arguments.out is not None:
        embedding.write_vectors(arguments.out, vectors)
        print(arguments.out)
    else:
        _print_table(*embedding.similarities(texts, vectors))


class _SearchArguments(Config):
    run: Path = option(Path(), "a run folder of clip, or a folder or name of a CLIP that Hugging Face's library reads")
    queries: tuple[str, ...] = option((), "texts, or files of pictures to which similar ones are wanted")
    images: tuple[Path, ...] = option((), "pictures to search: folders or files")
    top: int = option(5, "how many to show for each text", low=1)
    classify: bool = option(False, "for each picture, say which of the texts fits it best")
    out: Path | None = option(None, "also write a page with the pictures that were found")


def search(words: list[str]) -> None:
    arguments = parse(
        _SearchArguments(),
        words,
        command="search",
        about="Find pictures by what is on them.",
        positional=["run", "queries"],
    )
    from neuropil.runs import open as opening
    from neuropil.tasks.retrieval import search as searching

    found = searching.PictureSearch(opening.open_matcher(arguments.run), arguments.images)
    if arguments.classify:
        for file, cells in zip(found.files, found.classify(arguments.queries).lines(), strict=True):
            print("\t".join([str(file), *cells]))
        return
    rankings = [found.rank(query, arguments.top) for query in arguments.queries]
    for ranking in rankings:
        rows = [[f"{score:.3f}", str(file)] for file, score in zip(ranking.files, ranking.scores, strict=True)]
        _print_table(["similarity", ranking.query], rows)
    if arguments.out is not None:
        searching.write_page(arguments.out, rankings, len(found.files))
        print(arguments.out, file=sys.stderr)


class _PruneArguments(Config):
    run: Path = option(Path(), "a run folder")
    heads: str = option("50%", "how many attention heads to remove: a share or a number")
    by: Literal["gradient", "leave_one_out"] = option("gradient", "how the worth of a head is measured")
    out: Path | None = option(None, "folder to write; without it, a new one beside the run")


def prune(words: list[str]) -> None:
    arguments = parse(
        _PruneArguments(),
        words,
        command="prune",
        about="Remove the attention heads that are worth least.",
        positional=["run"],
    )
    from neuropil.runs import pruning, run

    _print_outcome(pruning.prune(run.load(arguments.run), arguments.heads, by=arguments.by, out=arguments.out))


COMMANDS = {
    "list": Command("list", "every system with its family and one line", list_systems),
    "show": Command("show NAME", "a system's equations, options and data", show),
    "train": Command(
        "train NAME [--data PATH] [--epochs N | --minutes M] ...", "train, evaluate and write a report", train
    ),
    "simulate": Command(
        "simulate NAME | network.toml [--duration MS] ...", "run neurons in time and write a report", simulate
    ),
    "resume": Command("resume RUN", "go on with a run that was stopped or killed", resume),
    "predict": Command("predict RUN INPUT...", "answers for new inputs", predict),
    "evaluate": Command("evaluate RUN [--data PATH]", "scores on held-out or your own labelled data", evaluate),
    "translate": Command(
        'translate RUN ["TEXT" | FILE ...] [--beam N]', "translate texts, files or standard input", translate
    ),
    "generate": Command(
        'generate RUN | FOLDER ["BEGINNING"] [--temperature 0.8] [--precision int8]', "go on with a text", generate
    ),
    "fill": Command('fill RUN | FOLDER "Paris is the [MASK] of France"', "find hidden words", fill),
    "classify": Command('classify RUN | FOLDER ["TEXT" | FILE ...]', "the classes of texts", classify),
    "embed": Command(
        'embed RUN | FOLDER ["TEXT" | FILE ...] [--out vectors.npy]',
        "a vector for each text, and how alike they are",
        embed,
    ),
    "search": Command('search RUN --images DIR "TEXT"', "find pictures by what is on them, or like another", search),
    "prune": Command("prune RUN --heads 50%", "remove the attention heads that are worth least", prune),
    "report": Command("report RUN", "evaluate again and rewrite the report", report),
    "compare": Command("compare RUN RUN...", "runs side by side", compare),
    "inspect": Command('inspect RUN [--gradients] [--attention "TEXT"] ...', "look inside a trained model", inspect),
}


def _print_help() -> None:
    print("neuropil: every network from the biological neuron to the transformer\n\nusage: neuropil COMMAND ...\n")
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        print(f"  {command.usage:<{width}}  {command.summary}")
    print("\nneuropil COMMAND --help explains a command; neuropil train NAME --help lists all options of a system.")


def _print_outcome(run: "Run") -> None:
    from neuropil.runs import overview

    results = run.results
    if results:
        _print_table(["", *overview.metric_names(results)], overview.result_rows(results))
        print(overview.margin(results))
    for note in run.settings["facts"].get("notes", []):
        print(note, file=sys.stderr)
    print(f"Report: {run.report}")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; tab-separated lines for other programs."""
    if not sys.stdout.isatty():
        for row in [header, *rows] if any(header) else rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


def _default(value: object) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
