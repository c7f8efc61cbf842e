"""`neuropil plan`: what training on several devices needs of them."""

from typing import TYPE_CHECKING

from neuropil.cli.arguments import Arguments, parse
from neuropil.cli.output import print_json, print_table
from neuropil.cli.train import changes, defaults_for, typed_options
from neuropil.config import Config, option

if TYPE_CHECKING:
    from neuropil.runs.plan.plan import TrainingPlan


class PlanArguments(Arguments):
    recipe: Config
    gpus: int = option(1, "number of devices", low=1)
    gpus_per_host: int = option(8, "devices of a host", low=1)
    memory: str = option("80GB", "memory of a device, as 80GB, 80G or 80GiB")
    peak: float | None = option(
        None, "operations a second of a device in 10¹² (TFLOP/s); by default those of an A100 in the precision", above=0
    )
    utilisation: float = option(0.5, "share of the peak that matrix products reach", above=0, high=1)
    bandwidth: str = option("300GB", "what a device sends to another of its host in a second")
    network_bandwidth: str = option("25GB", "what a device sends to another host in a second")


PEAKS = {"float32": 19.5e12, "bfloat16": 312e12}
"""Of an A100."""
PLANNED = ("parallel", "tensor_parallel", "recompute")
"""Options of a run that say which ways are planned; without them all are."""


def plan(words: list[str]) -> None:
    from neuropil.memory import bytes_of
    from neuropil.runs.plan.communication import Hardware
    from neuropil.runs.plan.plan import Wanted, plan_training
    from neuropil.runs.plan.shapes import PUBLISHED, published_options, system_recipe

    name = words[0]
    defaults: Config = published_options(name) if name in PUBLISHED else defaults_for(system_recipe(name), words)
    about = f"What training {name} needs of each device: memory, communication and time."
    arguments = parse(PlanArguments(recipe=defaults), words[1:], command=f"plan {name}", about=about)
    given = {key: value for key, value in changes(defaults, arguments.recipe, words[1:]).items() if key not in PLANNED}
    typed = {each.name: each.default for each in arguments.recipe.options() if each.name in typed_options(words[1:])}
    parallel = typed.get("parallel")
    wanted = Wanted(None if parallel == "auto" else parallel, typed.get("tensor_parallel"), typed.get("recompute"))
    precision = getattr(getattr(arguments.recipe, "training", None), "precision", "float32")
    hardware = Hardware(
        devices=arguments.gpus,
        devices_per_host=arguments.gpus_per_host,
        memory=bytes_of(arguments.memory, "--memory"),
        peak=PEAKS[precision] if arguments.peak is None else 1e12 * arguments.peak,
        utilisation=arguments.utilisation,
        bandwidth=bytes_of(arguments.bandwidth, "--bandwidth"),
        network=bytes_of(arguments.network_bandwidth, "--network-bandwidth"),
    )
    found = plan_training(name, arguments.recipe, given, hardware, wanted)
    print_json(found.to_dict()) if arguments.json else print_plan(found)
    if found.recommended is None:
        raise found.refusal()


def print_plan(found: "TrainingPlan") -> None:
    from neuropil.memory import written
    from neuropil.runs.plan.plan import seconds_text
    from neuropil.runs.plan.shapes import PLACEHOLDER

    hardware, model = found.hardware, found.model
    devices = "one device" if hardware.devices == 1 else f"{hardware.devices} devices"
    print(f"{found.name}: {model.parameters:,} parameters, {found.precision}, batches of {found.batch}", end=", ")
    print(f"{devices} of {written(hardware.memory)}.\n")
    parts = ["weights", "gradients", "optimizer", "activations", "logits", "communication", "total"]
    rows = [
        [
            each.name,
            str(each.batch),
            *(written(getattr(each.memory, part)) for part in parts),
            each.memory.moment,
            "yes" if each.fits else "no",
        ]
        for each in found.ways
    ]
    print("Memory of a device, at the moment of an update when it needs the most (not the most of each part):")
    print_table(["way", "batch", *parts, "moment", "fits"], rows)
    sent = ["all_reduce", "all_gather", "reduce_scatter", "tensor"]
    rows = [
        [
            each.name,
            *(written(getattr(each.traffic, kind)) for kind in sent),
            seconds_text(each.computing),
            seconds_text(each.waiting),
            "–" if each.efficiency is None else f"{100 * each.efficiency:.0f} %",
        ]
        for each in found.ways
    ]
    print("\nWhat a device sends in an update, computes and waits:")
    print_table(["way", *(kind.replace("_", "-") for kind in sent), "computes", "waits", "efficiency"], rows)
    if (best := found.recommended) is not None:
        print(f"\n{found.sentence(best)}\n{found.command(best)}")
        if PLACEHOLDER in found.command(best):
            print(f"{PLACEHOLDER} stands for your own files or folders of text, which --data names here too.")
    print(
        f"\nAssumed: {hardware.peak / 1e12:.3g} TFLOP/s of which {100 * hardware.utilisation:.0f} % are reached, "
        f"{written(hardware.bandwidth)}/s between devices of a host, {written(hardware.network)}/s between hosts."
    )
