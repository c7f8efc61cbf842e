"""Completion of words in a shell: `eval "$(neuropil --completion bash)"`.

Names of systems and all options stand in the script, so that a shell waits for nothing."""

from collections.abc import Mapping, Sequence

from neuropil.config import Config, flag_of
from neuropil.errors import InputError

SHELLS = ("bash", "zsh", "fish")


def script(words: Sequence[str]) -> str:
    if len(words) != 1 or words[0] not in SHELLS:
        got = repr(" ".join(words)) if words else "nothing"
        raise InputError("neuropil --completion needs a shell", got=got, fix=f"choose from {', '.join(SHELLS)}")
    from neuropil.cli.commands import COMMANDS

    systems = _systems()
    options = {
        name: _flags(command.arguments(), command.positional)
        for name, command in COMMANDS.items()
        if name not in systems
    }
    options["show"] = [*(name for named in systems.values() for name in named), *options["show"]]
    return (_fish if words[0] == "fish" else _bash)(words[0], options, systems)


def _systems() -> dict[str, dict[str, list[str]]]:
    """For each command that is followed by the name of a system, the options of each."""
    from neuropil import recipes
    from neuropil.cli.plan import PlanArguments
    from neuropil.cli.train import FORMS, names_for
    from neuropil.runs.plan.shapes import PUBLISHED, published_options

    systems = {
        command: {name: _flags(form(recipe=recipes.recipe(name).options), ()) for name in names_for(command)}
        for command, form in {**FORMS, "plan": PlanArguments}.items()
    }
    for name in PUBLISHED:
        systems["plan"][name] = _flags(PlanArguments(recipe=published_options(name)), ())
    return systems


def _flags(form: Config, positional: Sequence[str]) -> list[str]:
    return [flag_of(each.name) for each in form.options() if each.name not in positional]


def _bash(shell: str, options: Mapping[str, list[str]], systems: Mapping[str, Mapping[str, list[str]]]) -> str:
    cases = [f"    {name}) words={' '.join(flags)!r} ;;" for name, flags in options.items()]
    for verb, named in systems.items():
        cases.append(f"    {verb}) case ${{COMP_CWORD}}:${{COMP_WORDS[2]}} in")
        cases.append(f"      2:*) words={' '.join(named)!r} ;;")
        cases += [f"      *:{name}) words={' '.join(flags)!r} ;;" for name, flags in named.items()]
        cases.append("    esac ;;")
    first = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    names = " ".join([*options, *systems])
    return f"""{first}_neuropil() {{
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then words='{names}'; else case "${{COMP_WORDS[1]}}" in
{chr(10).join(cases)}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _neuropil neuropil"""


def _fish(shell: str, options: Mapping[str, list[str]], systems: Mapping[str, Mapping[str, list[str]]]) -> str:
    begin = "complete -c neuropil"
    lines = [f"{begin} -n __fish_use_subcommand -a '{' '.join([*options, *systems])}'"]
    seen = "__fish_seen_subcommand_from"
    for name, flags in options.items():
        lines += [
            f"{begin} -n '{seen} {name}' " + (f"-l {each[2:]}" if each[0] == "-" else f"-a {each}") for each in flags
        ]
    for verb, named in systems.items():
        lines.append(f"{begin} -n '{seen} {verb}; and not {seen} {' '.join(named)}' -a '{' '.join(named)}'")
        for name, flags in named.items():
            lines += [f"{begin} -n '{seen} {verb}; and {seen} {name}' -l {flag[2:]}" for flag in flags]
    return "\n".join(lines)
