"""Commands that use a trained model: one for each capability."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from neuropil.cli.arguments import Arguments
from neuropil.cli.output import print_json, print_lines, print_table
from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.progress import Stages

if TYPE_CHECKING:
    from neuropil.runs.run import Run
    from neuropil.tasks.attack import AttackConfig
    from neuropil.tasks.generated_examples import GeneratedExamples
    from neuropil.tasks.predictor import Answers

MODEL = "a run folder, a Hugging Face folder, or owner/name on its hub"
TEXTS = "texts, or files with a text on each line; without any, lines of standard input"


class PredictArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    inputs: tuple[Path, ...] = option((), "files like the training data: pictures, IDX, NPZ, CSV, lines of text")


def predict(arguments: PredictArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.predictor import Predicts

    predictor = run.load(arguments.run).able(Predicts)
    if not arguments.inputs:
        fix = f"neuropil predict {shlex.quote(str(arguments.run))} picture.png"
        raise InputError("neuropil predict needs files to look at", got="none", fix=fix)
    inputs, names = predictor.read(arguments.inputs)
    _print_answers("input", names, predictor.predict(inputs), arguments.json)


def _print_answers(what: str, names: Sequence[str], answers: "Answers", as_json: bool) -> None:
    if as_json:
        print_json(*({what: name, **record} for name, record in zip(names, answers.records(), strict=True)))
    else:
        print_lines("\t".join([name, *cells]) for name, cells in zip(names, answers.lines(), strict=True))


class EvaluateArguments(Arguments):
    run: Path = option(Path(), "a run folder, or a file of word vectors")
    data: tuple[Path, ...] = option((), "labelled files of your own; without it, the run's held-out part")
    vocabulary_size: int | None = option(None, "of word vectors: maximum vocabulary size", low=1)


def evaluate(arguments: EvaluateArguments) -> None:
    from neuropil.metrics import find_metric
    from neuropil.runs import open

    metrics = open.evaluate(
        arguments.run,
        arguments.data,
        vocabulary_size=arguments.vocabulary_size,
        notify=lambda words: print(words, file=sys.stderr),
    )
    if arguments.json:
        print_json(metrics)
        return
    print_table(["metric", "value"], [[name, find_metric(name).text(value)] for name, value in metrics.items()])


class TranslateArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    texts: tuple[str, ...] = option((), TEXTS)
    beam: int = option(1, "beam width; 1 is greedy", low=1)
    length_penalty: float = option(0.6, "length penalty of the beam search; 0 for none", low=0)
    attention: Path | None = option(None, "also write a page with the attention over each text")


def translate(arguments: TranslateArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.predictor import Translates

    translator = run.load(arguments.run).able(Translates)
    texts, beam, penalty, page = _texts(arguments.texts), arguments.beam, arguments.length_penalty, arguments.attention
    pairs = translator.translate_lines(texts, beam_width=beam, length_penalty=penalty, attention=page)
    for text, translation in pairs:
        if arguments.json:
            print_json({"text": text, "translation": translation})
            continue
        # A person has forgotten the question when the answer comes; another program wants the answer alone.
        print(f"{text}  →  {translation}" if sys.stdout.isatty() and arguments.texts else translation, flush=True)
    if page is not None:
        print(page, file=sys.stderr)


def _texts(words: tuple[str, ...]) -> Iterator[list[str]]:
    from neuropil.tasks.texts import texts_of

    if not words and sys.stdin.isatty():
        print("Texts are read from standard input, one on each line; Ctrl-D ends them.", file=sys.stderr)
    return texts_of(words, sys.stdin)


class GenerateArguments(Arguments):
    run: str = option("", MODEL)
    prompt: str = option("", "prompt; without one, what the model takes for the beginning of a text")
    generation: Config


def generate_arguments() -> GenerateArguments:
    from neuropil.tasks.language_modelling.generation import GenerationConfig

    return GenerateArguments(generation=GenerationConfig())


def generate(arguments: GenerateArguments) -> None:
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import Generates

    predictor = open_able(arguments.run, Generates)
    pieces = predictor.stream(arguments.prompt, arguments.generation, lambda words: print(words, file=sys.stderr))
    if arguments.json:
        print_json({"prompt": arguments.prompt, "text": "".join(pieces)})
        return
    for piece in pieces:
        print(piece, end="", flush=True)


class FillArguments(Arguments):
    run: str = option("", MODEL)
    texts: tuple[str, ...] = option((), "texts with [MASK] in place of each masked word")
    top: int = option(5, "words to show for each [MASK]", low=1)


def fill(arguments: FillArguments) -> None:
    if not arguments.texts:
        fix = f'neuropil fill {shlex.quote(arguments.run)} "Paris is the [MASK] of France"'
        raise InputError("neuropil fill needs texts with [MASK] in them", got="none", fix=fix)
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import Fills

    filler = open_able(arguments.run, Fills)
    for text in arguments.texts:
        found = filler.fill(text, arguments.top)
        if arguments.json:
            for each in found:
                print_json({"input": text, **each.record()})
            continue
        rows = [[f"{each.place}", each.word, f"{100 * each.share:.1f} %", each.text] for each in found]
        print_table(["place", "word", "probability", "text"], rows)


class ClassifyArguments(Arguments):
    run: str = option("", MODEL)
    texts: tuple[str, ...] = option((), TEXTS)


def classify(arguments: ClassifyArguments) -> None:
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import Classifies

    classifier = open_able(arguments.run, Classifies)
    for texts in _texts(arguments.texts):
        _print_answers("text", texts, classifier.classify(texts), arguments.json)


class EmbedArguments(Arguments):
    run: str = option("", MODEL)
    texts: tuple[str, ...] = option((), TEXTS)
    out: Path | None = option(None, "write the embeddings to this .npy file, a row for each text")


def embed(arguments: EmbedArguments) -> None:
    from neuropil.runs.open import open_able
    from neuropil.tasks import embedding
    from neuropil.tasks.predictor import Embeds

    texts = [text for portion in _texts(arguments.texts) for text in portion]
    embedding.require_texts(texts)
    vectors = open_able(arguments.run, Embeds).embed(texts)
    if arguments.out is not None:
        embedding.write_vectors(arguments.out, vectors)
        print(arguments.out)
    elif arguments.json:
        for text, vector in zip(texts, vectors.tolist(), strict=True):
            print_json({"text": text, "vector": vector})
    else:
        print_table(*embedding.similarities(texts, vectors))


class SearchArguments(Arguments):
    run: str = option("", MODEL)
    texts: tuple[str, ...] = option((), "texts, or files of pictures to which similar ones are wanted")
    images: tuple[Path, ...] = option((), "pictures to search: folders or files")
    top: int = option(5, "pictures to show for each text", low=1)
    classify: bool = option(False, "zero-shot classification: for each picture, the text that fits it best")
    out: Path | None = option(None, "also write a page with the pictures that were found")


def search(arguments: SearchArguments) -> None:
    images, queries = arguments.images, arguments.texts
    if not queries and (there := tuple(path for path in images if path.exists())):
        # Where the text stands last, the list of pictures before it has taken it.
        images, queries = there, tuple(str(path) for path in images if path not in there)
    if not queries:
        fix = f'neuropil search {shlex.quote(arguments.run)} "a red bicycle" --images photos'
        raise InputError("neuropil search needs texts or pictures to search for", got="none", fix=fix)
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import Searches

    found = open_able(arguments.run, Searches).search(images)
    if arguments.classify:
        _print_answers("file", [str(file) for file in found.files], found.classify(queries), arguments.json)
        return
    rankings = [found.rank(query, arguments.top) for query in queries]
    for ranking in rankings:
        if arguments.json:
            for file, score in zip(ranking.files, ranking.scores, strict=True):
                print_json({"query": ranking.query, "file": file, "similarity": score})
            continue
        rows = [[f"{score:.3f}", str(file)] for file, score in zip(ranking.files, ranking.scores, strict=True)]
        print_table(["similarity", ranking.query], rows)
    if arguments.out is not None:
        found.write_page(arguments.out, rankings)
        print(arguments.out, file=sys.stderr)


class SampleArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    count: int = option(64, "number of samples", low=1, high=1_000_000)
    seed: int = option(0, "seed of the random numbers")
    class_: str | None = option(None, "class of the samples, where the model knows classes")
    steps: int | None = option(None, "sampling steps, where the model takes some", low=1)
    guidance: float | None = option(None, "classifier-free guidance, where the model has it; 1 for none", low=0)
    sampler: str | None = option(None, "sampling method, where the model has several")
    out: Path | None = option(None, "grid of pictures (.png, .jpg, .webp) or arrays (.npz, .npy)")


def sample(arguments: SampleArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.generated_examples import ARRAYS, MOST_IN_A_GRID
    from neuropil.tasks.predictor import Samples

    out = arguments.out
    if out is not None and arguments.count > MOST_IN_A_GRID and out.suffix.lower() not in ARRAYS:
        rule, got = f"a grid shows at most {MOST_IN_A_GRID:,} samples", f"{arguments.count:,}"
        raise InputError(rule, got=got, fix="write them with --out samples.npz")
    opened = run.load(arguments.run).able(Samples)
    given = {"steps": arguments.steps, "guidance": arguments.guidance, "sampler": arguments.sampler}
    options = {name: value for name, value in given.items() if value is not None}
    seed, label = arguments.seed, arguments.class_
    make = partial(opened.sample, arguments.count, seed=seed, label=label, **options)
    _write(make, out, "samples", arguments.json)


class ReconstructArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    inputs: tuple[Path, ...] = option((), "files like the training data: pictures, IDX, NPZ")
    out: Path | None = option(None, "grid of pictures (.png, .jpg, .webp) or arrays (.npz, .npy)")


def reconstruct(arguments: ReconstructArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.predictor import Reconstructs

    opened = run.load(arguments.run).able(Reconstructs)
    inputs = arguments.inputs
    _write(lambda: opened.reconstruct(opened.read(inputs)[0]), arguments.out, "reconstructions", arguments.json)


class RecallArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    inputs: tuple[Path, ...] = option((), "files of damaged or noisy examples: pictures, IDX, NPZ")
    out: Path | None = option(None, "grid of pictures (.png, .jpg, .webp) or arrays (.npz, .npy)")


def recall(arguments: RecallArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.predictor import Recalls

    opened = run.load(arguments.run).able(Recalls)
    inputs, names = opened.read(arguments.inputs)
    made = _write(lambda: opened.recall(inputs), arguments.out, "recalled", arguments.json)
    if made is not None:
        print_table(["input", "settled at"], list(zip(names, made.names, strict=True)))


class InterpolateArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    first: Path = option(Path(), "a picture")
    last: Path = option(Path(), "another")
    steps: int = option(8, "pictures in all", low=2, high=1_000)
    out: Path | None = option(None, "grid of pictures (.png, .jpg, .webp) or arrays (.npz, .npy)")


def interpolate(arguments: InterpolateArguments) -> None:
    from neuropil.runs import run
    from neuropil.tasks.predictor import Interpolates

    opened = run.load(arguments.run).able(Interpolates)
    first, last = (opened.read([path])[0] for path in (arguments.first, arguments.last))
    _write(lambda: opened.interpolate(first, last, arguments.steps), arguments.out, "interpolation", arguments.json)


def _write(
    make: "Callable[[], GeneratedExamples]", out: Path | None, name: str, as_json: bool
) -> "GeneratedExamples | None":
    """What was made, into a file: without `out`, pictures as a grid, rows and very many pictures as arrays. As JSON,
    the values themselves."""
    from neuropil.tasks.generated_examples import MOST_IN_A_GRID, require_savable

    if as_json:
        for record in make().records():
            print_json(record)
        return None
    if out is not None:
        require_savable(out)
    made = make()
    drawn = made.schema.kind == "image" and len(made) <= MOST_IN_A_GRID
    print(made.save(out or Path(f"{name}.{'png' if drawn else 'npz'}")))
    return made


class AttackArguments(Arguments):
    run: Path = option(Path(), "a run folder")
    inputs: tuple[Path, ...] = option((), "files like the training data; without any, examples of the held-out part")
    attack: Config
    minimal: bool = option(False, "the smallest perturbation that changes the class: --method minimal")
    strongest: bool = option(False, "all that is strong, one after the other: --method strongest")
    surrogate: Path | None = option(
        None, "run of another model, from which attacks are transferred; a small one is trained if none"
    )
    out: Path | None = option(None, "grid of pictures (.png, .jpg, .webp) or arrays (.npz, .npy)")


def attack_arguments() -> AttackArguments:
    from neuropil.tasks.attack import AttackConfig

    return AttackArguments(attack=AttackConfig())


def attack(arguments: AttackArguments) -> None:
    from neuropil.runs import run
    from neuropil.runs.attack import attacker_of
    from neuropil.runs.pages.attack import write_attack

    opened = run.load(arguments.run)
    surrogate = None if arguments.surrogate is None else run.load(arguments.surrogate)
    if arguments.out is not None:
        attacker_of(opened).require_output(arguments.out)
    asked = cast("AttackConfig", arguments.attack)
    config = asked.by_flags(minimal=arguments.minimal, strongest=arguments.strongest)
    if arguments.inputs or arguments.out is not None:
        if surrogate is not None:
            rule, fix = "--surrogate is for the page on the held-out part", "leave out the inputs and --out"
            raise InputError(rule, got="inputs or --out", fix=fix)
        _attack_inputs(opened, config, arguments)
        return
    with Stages("attack") as stages:
        path, found = write_attack(opened, config, surrogate=surrogate, stage=stages.begin)
    signs = [each for each in found.signs if each.found]
    if arguments.json:
        print_json({"accuracy": found.accuracy, "signs": {each.name: each.numbers for each in signs}, "page": path})
        return
    rows = [[name, f"{100 * share:.2f} %", f"{100 * (1 - share):.2f} %"] for name, share in found.accuracy.items()]
    print_table(["attack", "accuracy", "risk"], rows)
    for each in signs:
        print(f"Sign of false safety ({each.name}): {each.words}")
    print(path)


def _attack_inputs(opened: "Run", config: "AttackConfig", arguments: AttackArguments) -> None:
    from neuropil.runs.attack import attack_run

    what = "inputs" if arguments.inputs else "held-out part"
    with Stages("attack") as stages:
        found = attack_run(opened, arguments.inputs or None, None, config, progress=stages.begin(what))
    if arguments.json:
        _print_answers("input", found.names, found, as_json=True)
    else:
        rows = [[name, *cells] for name, cells in zip(found.names, found.lines(), strict=True)]
        print_table(["input", *found.header], rows)
    if arguments.out is not None:
        print(cast(Any, found).save(arguments.out), file=sys.stderr)  # which `require_output` has made sure of


class ExportArguments(Arguments):
    run: Path = option(Path(), "a run folder, or a file of word vectors")
    out: Path | None = option(None, "file to write; without it, model.onnx or model.nir in the run folder")
    format: Literal["onnx", "nir", "word2vec", "word2vec-binary", "glove"] | None = option(
        None, "file format; without it, by the file name: .nir, or .bin, .vec and .txt for word vectors, otherwise onnx"
    )
    vocabulary_size: int | None = option(None, "of word vectors: maximum vocabulary size", low=1)


def export(arguments: ExportArguments) -> None:
    from neuropil.pretrained.word_vectors import holds_vectors

    out, format = arguments.out, arguments.format
    if format is None and (out is None or not holds_vectors(out)):
        format = "nir" if out is not None and out.suffix == ".nir" else "onnx"
    if format in ("onnx", "nir"):
        _export_model(arguments, format)
        return
    if out is None:
        raise InputError("word vectors are exported to a file", got="none", fix="add --out vectors.txt")
    from neuropil.runs.export import require_ending
    from neuropil.runs.open import open_able
    from neuropil.tasks.predictor import ComparesWords

    if format is not None:
        require_ending(out, format)
    vectors = open_able(arguments.run, ComparesWords, vocabulary_size=arguments.vocabulary_size)
    vectors.save_vectors(out, format)
    print(out)


def _export_model(arguments: ExportArguments, format: str) -> None:
    from neuropil.runs import run
    from neuropil.runs.export import Export

    found = run.load(arguments.run).export(format, arguments.out)
    if arguments.json:
        print_json(found._asdict())
        return
    if isinstance(found, Export):
        rows = [
            [kind, name, " × ".join(map(str, axes))]
            for kind in ("inputs", "outputs")
            for name, axes in getattr(found, kind).items()
        ]
        print_table(["", "name", "shape"], rows)
        print(f"ONNX Runtime and PyTorch differ by {found.difference:.1g} at most.")
    else:
        rows = [[name, kind, " × ".join(map(str, axes))] for name, (kind, axes) in found.nodes.items()]
        print_table(["node", "kind", "shape"], rows)
        print(found.summary)
    print(found.path)
