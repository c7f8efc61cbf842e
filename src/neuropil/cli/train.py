"""Commands that list systems, start runs and finish them."""

import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuropil.cli.arguments import Arguments, parse
from neuropil.cli.output import print_data, print_json, print_outcome, print_search, print_table
from neuropil.config import Config, Option, describe_type, describe_value, flag_of, option
from neuropil.errors import InputError
from neuropil.progress import is_heard

if TYPE_CHECKING:
    from neuropil.tasks.recipe import Recipe


class ListArguments(Arguments):
    pass


def list_systems(arguments: ListArguments) -> None:
    from neuropil.recipes import SYSTEMS

    if arguments.json:
        for each in SYSTEMS:
            print_json({"name": each.name, "family": each.family, "summary": each.summary, "verb": each.verb})
        return
    if not sys.stdout.isatty():
        print_table(["system", "family", "what it is"], [[each.name, each.family, each.summary] for each in SYSTEMS])
        return
    indent = 4 + max(len(each.name) for each in SYSTEMS)
    wrapped = textwrap.TextWrapper(shutil.get_terminal_size().columns, subsequent_indent=" " * indent)
    for family, systems in groupby(SYSTEMS, lambda each: each.family):
        print(f"\n{family}")
        for each in systems:
            print(wrapped.fill(f"  {each.name}".ljust(indent) + each.summary))


class ShowArguments(Arguments):
    name: str = option("", "a system that `neuropil list` shows, or the folder of a run or of a search")


def show(arguments: ShowArguments) -> None:
    from neuropil.runs.tuning.folder import is_tuning

    folder = Path(arguments.name)
    if is_tuning(folder):
        _show_search(folder, arguments.json)
        return
    if (
        "/" in arguments.name or arguments.name.endswith(".zip") or (folder / "config.json").exists()
    ):  # no system's name has a slash
        _show_run(folder, arguments.json)
        return
    from neuropil import recipes

    system = recipes.find(arguments.name)
    recipe = recipes.recipe(system.name)
    form = FORMS[recipe.verb]
    sets = {"": recipe.options, "--data": recipe.own_data, "--start": recipe.fine_tuning}
    sets |= {f"--size {size}": recipe.options.override(**values) for size, values in recipe.sizes.items()}
    by_flag = {flag: form(recipe=options).options() for flag, options in sets.items() if options is not None}
    embedded = by_flag.pop("")
    if arguments.json:
        options = [
            {"name": each.name, "type": describe_type(each.type), "default": each.default, "help": each.help}
            for each in embedded
        ]
        about = {"name": system.name, "family": system.family, "summary": system.summary, "verb": recipe.verb}
        print_json({**about, "equations": recipe.equations, "options": options})
        return
    print(f"{system.name} ({system.family}): {system.summary}\n\n{recipe.equations}\n")
    print(f"Options of neuropil {recipe.verb} {system.name}:")
    rows = [
        [
            flag_of(each.name),
            describe_type(each.type),
            _default(each, {flag: options[place] for flag, options in by_flag.items()}),
            each.help,
        ]
        for place, each in enumerate(embedded)
    ]
    print_table(["option", "type", "default", "meaning"], rows)
    if recipe.tunable:
        usual = _searched(embedded)
        print(f"\nneuropil tune {system.name} searches {'; '.join(usual.values())}.")
        for flag, options in by_flag.items():
            others = [words for name, words in _searched(options).items() if words != usual.get(name)]
            if others:
                print(f"With {flag} it searches {'; '.join(others)} instead.")


def _searched(options: Sequence[Option]) -> dict[str, str]:
    """What `neuropil tune` searches of each option that declares it, which follows the default."""
    from neuropil.runs.tuning.space import describe_searched

    return {each.name: f"{flag_of(each.name)} {describe_searched(each.tune)}" for each in options if each.tune}


def _default(option: Option, others: Mapping[str, Option]) -> str:
    """And what it is where another option is given, if that is different."""
    default = describe_value(option.default)
    own = {flag: describe_value(other.default) for flag, other in others.items()}
    return "; ".join([default, *(f"with {flag} {value}" for flag, value in own.items() if value != default)])


def _show_run(folder: Path, as_json: bool) -> None:
    from neuropil import recipes
    from neuropil.metrics import find_metric
    from neuropil.runs import run

    opened = run.load(folder).require_whole()
    folder = opened.folder
    if as_json:
        about = {"run": folder, "system": opened.name, "seed": opened.seed, "command": opened.settings["command"]}
        able = [each.verb for each in opened.capabilities] if (folder / "model.safetensors").exists() else []
        print_json({**about, "finished": opened.finished, "metrics": opened.metrics, "capabilities": able})
        return
    print(f"{folder}: a run of {opened.name}, seed {opened.seed}\n{opened.settings['command']}\n")
    for name, value in opened.metrics.items():
        print(f"{find_metric(name).title}: {find_metric(name).text(value)}")
    quoted, rows = shlex.quote(str(folder)), []
    if not opened.finished:
        rows.append(["resume", f"it is not finished: {opened.progress}", opened.resume_command])
    if (folder / "model.safetensors").exists():
        rows += [[each.verb, f"it {each.does}", each.command.format(run=quoted)] for each in opened.capabilities]
        if recipes.find(opened.name).family != recipes.NEURONS:
            rows.append(["export", "its model runs elsewhere as ONNX", f"neuropil export {quoted}"])
    print_table(["can", "", "command"], rows or [["report", "it leaves no model", f"neuropil report {quoted}"]])


def _show_search(folder: Path, as_json: bool) -> None:
    from neuropil.inspection.report.trials import chosen_table, trials_table
    from neuropil.runs.tuning.folder import Tuning

    opened = Tuning.load(folder)
    best = opened.settings["best"] if opened.finished else None
    if as_json:
        about = {"search": folder, "system": opened.name, "seed": opened.settings["seed"]}
        found = {"best": best, "options": opened.chosen if opened.finished else None}
        rows = [each.to_dict() for each in opened.trials_now]
        print_json(
            {**about, "command": opened.settings["command"], "finished": opened.finished, **found, "trials": rows}
        )
        return
    about = f"{folder}: a search over the options of {opened.name}, seed {opened.settings['seed']}"
    print(about, opened.settings["command"], "", sep="\n")
    tables = [trials_table(opened.trials_now, opened.space, opened.metric, best)]
    tables += [chosen_table(opened.found)] if opened.finished else []
    for table in tables:
        print_table(table.header, [[str(cell) for cell in row] for row in table.rows])
        print()
    if opened.finished:
        print_search(opened, as_json=False)
    else:
        print(f"It is not finished: neuropil resume {shlex.quote(str(folder))}")


class StartArguments(Arguments):
    recipe: Config
    out: Path | None = option(None, "folder to write; without it, a new one under runs/")
    seed: int = option(0, "random seed: the same seed gives the same results", low=0)


class TrainArguments(StartArguments):
    explain: bool = option(False, "say how each recurrent cell is executed, and do not train")
    estimate: bool = option(False, "say how long it will take on this machine, and do not train")
    check_data: bool = option(False, "say what was understood of the data, and do not train")
    report: bool = option(True, "write the report, which `neuropil report` can do later")


class TuneArguments(StartArguments):
    trials: int = option(20, "number of trials", low=1)
    minutes: float | None = option(None, "time limit in minutes for all trials, evaluation and report", low=0.001)
    workers: int | None = option(None, "trials at once: one, or one for each machine of a Ray cluster", low=1)
    ray: str | None = option(None, "address of a Ray cluster that trains the trials, or auto")
    over: tuple[str, ...] = option((), "what to search: learning-rate=1e-4..1e-2 is a range, dropout=0,0.1 has values")
    report: bool = option(True, "write the report, which `neuropil report` can do later")

    def options(self) -> list[Option]:
        """The time limit is that of the search, in the place of that of a run."""
        return list({each.name: each for each in super().options()}.values())


FORMS: dict[str, type[StartArguments]] = {"train": TrainArguments, "simulate": StartArguments, "tune": TuneArguments}
"""What the commands are given that are followed by the name of a system."""


def names_for(command: str) -> list[str]:
    """The systems that a command takes."""
    from neuropil import recipes

    if command in ("tune", "plan"):
        return [each.name for each in recipes.SYSTEMS if recipes.recipe(each.name).tunable]
    return [each.name for each in recipes.SYSTEMS if each.verb == command]


def train(words: list[str]) -> None:
    from neuropil import recipes

    system, recipe = recipes.find(words[0]), recipes.recipe_for("train", words[0])
    defaults = defaults_for(recipe, words)
    form, about = TrainArguments(recipe=defaults), f"Train: {system.summary}."
    arguments = parse(form, words[1:], command=f"train {system.name}", about=about)
    chosen = changes(defaults, arguments.recipe, words[1:])
    from neuropil.runs import start
    from neuropil.runs.pages import gradients

    if arguments.explain:
        print_table(*gradients.execution_table(system.name, arguments.seed, chosen))
        return
    if arguments.estimate or arguments.check_data:
        _look_ahead(arguments, system.name, chosen)
        return
    started = {"out": arguments.out, "seed": arguments.seed, "report": arguments.report}
    run = start.train(system.name, **started, **chosen)
    if is_heard():  # in the others the folder may not be there
        print_outcome(run, as_json=arguments.json)


def _look_ahead(arguments: TrainArguments, name: str, chosen: Mapping[str, Any]) -> None:
    from neuropil.runs.data_preview import preview_data
    from neuropil.runs.estimate import estimate

    if arguments.check_data:
        found = preview_data(name, chosen, seed=arguments.seed)
        print_json(found.to_dict()) if arguments.json else print_data(found)
    if arguments.estimate:
        seconds = estimate(name, chosen, seed=arguments.seed)
        print_json(seconds.to_dict()) if arguments.json else print(seconds.sentence())


def simulate(words: list[str]) -> None:
    from neuropil import recipes

    system, _ = recipes.find_simulation(words[0])
    recipe = recipes.recipe_for("simulate", system.name)
    form, about = StartArguments(recipe=recipe.options), f"Simulate: {system.summary}."
    arguments = parse(form, words[1:], command=f"simulate {words[0]}", about=about)
    from neuropil.runs import start

    chosen = changes(recipe.options, arguments.recipe, words[1:])
    simulated = start.simulate(words[0], out=arguments.out, seed=arguments.seed, **chosen)
    if is_heard():
        print_outcome(simulated, as_json=arguments.json)


def tune(words: list[str]) -> None:
    from neuropil import recipes
    from neuropil.runs.tuning.folder import tunable_plan
    from neuropil.runs.tuning.space import parse_over
    from neuropil.runs.tuning.study import tune as start

    plan = tunable_plan(words[0], 0, {})
    defaults = defaults_for(plan.recipe, words)
    about = f"Choose hyper-parameters on the validation part: {recipes.find(plan.name).summary}."
    arguments = parse(TuneArguments(recipe=defaults), words[1:], command=f"tune {plan.name}", about=about)
    chosen = changes(defaults, arguments.recipe, words[1:])
    chosen.pop("minutes", None)  # of the search, not of a run
    over = parse_over(arguments.over, {each.name: each for each in defaults.options()})
    started = {"out": arguments.out, "seed": arguments.seed, "report": arguments.report}
    limits = {"trials": arguments.trials, "minutes": arguments.minutes}
    processes = {"workers": arguments.workers, "ray": arguments.ray}
    found = start(plan.name, over=over, **limits, **processes, **started, **chosen)
    print_search(found, as_json=arguments.json)


def print_names(verb: str, usage: str, more: str = "") -> None:
    names = ", ".join(names_for(verb))
    print(f"usage: neuropil {verb} {usage} [options]\n\nNAME is one of {names}.", more, sep="\n" if more else "")
    print(f"neuropil {verb} NAME --help lists the options of that system.")


def defaults_for(recipe: "Recipe", words: list[str]) -> Config:
    given = {word.partition("=")[0] for word in words}
    return recipe.defaults(own_data="--data" in given, start="--start" in given, size=_value_of("--size", words))


def _value_of(flag: str, words: list[str]) -> str | None:
    """What follows a flag, after a space or an equals sign: it must be known before the words are read."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == flag:
            return value if equals else following
    return None


def changes(defaults: Config, given: Config, words: list[str]) -> dict[str, Any]:
    """What was chosen otherwise than by default, or typed: what a time limit chooses leaves both alone."""
    typed, pairs = typed_options(words), zip(defaults.options(), given.options(), strict=True)
    return {
        chosen.name: chosen.default
        for default, chosen in pairs
        if chosen.default != default.default or chosen.name in typed
    }


def typed_options(words: list[str]) -> set[str]:
    """The names of options that are among the words."""
    flags = (word.partition("=")[0].replace("-", "_") for word in words)
    return {flag.removeprefix("__").removeprefix("no_") for flag in flags if flag.startswith("__")}


class RunArguments(Arguments):
    run: Path = option(Path(), "a run folder")


def resume(arguments: RunArguments) -> None:
    from neuropil.runs import run, start
    from neuropil.runs.tuning.folder import Tuning, is_tuning
    from neuropil.runs.tuning.study import resume_tuning
    from neuropil.training.distributed.processes import world

    if not is_heard():
        start.resume(arguments.run)
        return
    if is_tuning(arguments.run):
        if not world().alone:
            rule, fix = "a search over hyper-parameters is the work of one process", "resume it without torchrun"
            raise InputError(rule, got=f"{world().size} of them", fix=fix)
        if Tuning.load(arguments.run).finished:
            print(f"{arguments.run} is finished: there is nothing to resume.", file=sys.stderr)
        print_search(resume_tuning(arguments.run), as_json=arguments.json)
        return
    opened = run.load(arguments.run).require_whole()
    if opened.finished and opened.report.exists():
        print(f"{arguments.run} is finished: there is nothing to resume.", file=sys.stderr)
    print_outcome(start.resume(arguments.run), as_json=arguments.json)


def report(arguments: RunArguments) -> None:
    from neuropil.runs import start
    from neuropil.runs.tuning.folder import Tuning, is_tuning

    if is_tuning(arguments.run):
        found = Tuning.load(arguments.run)
        found.write_report()
        written = found.report
    else:
        written = start.rewrite_report(arguments.run).report
    if arguments.json:
        print_json({"report": written})
    else:
        print(written)
