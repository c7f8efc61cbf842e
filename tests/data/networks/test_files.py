"""A network in TOML: what it says is what comes, and every mistake is named with its key."""

from pathlib import Path

import pytest

from neuropil.data.networks.files import parse_network, read_network
from neuropil.errors import InputError
from neuropil.models.spiking.description import KEYS

WHOLE = """
[groups.cells]
size = 10
tau_m = 15
start = [0.0, 1.0]

[groups.input]
size = 4
rate = 20.0

[[connections]]
from = "input"
to = "cells"
weight = 0.5
fan_in = 2
delay = 1.5
tau = 5.0
stdp = { potentiation = 0.01, high = 2.0 }

[[poisson]]
to = "cells"
rate = 100
weight = 0.1

[[currents]]
to = "cells"
amount = 1.2

[[probes]]
group = "cells"
neurons = [0, 3]
"""


def test_a_file_is_read_as_it_stands(tmp_path: Path):
    path = tmp_path / "network.toml"
    path.write_text(WHOLE, encoding="utf-8")
    network = read_network(path, KEYS)
    assert network.groups == {
        "cells": {"size": 10, "tau_m": 15, "start": [0.0, 1.0]},
        "input": {"size": 4, "rate": 20.0},
    }
    assert network.lists["connections"] == [
        {
            "from": "input",
            "to": "cells",
            "weight": 0.5,
            "fan_in": 2,
            "delay": 1.5,
            "tau": 5.0,
            "stdp": {"potentiation": 0.01, "high": 2.0},
        }
    ]
    assert network.lists["poisson"] == [{"to": "cells", "rate": 100, "weight": 0.1}]
    assert network.lists["currents"] == [{"to": "cells", "amount": 1.2}]
    assert network.lists["probes"] == [{"group": "cells", "neurons": [0, 3]}]


def test_only_a_group_is_needed():
    network = parse_network("[groups.cells]\nsize = 3", "x.toml", KEYS)
    assert network.lists == {"connections": [], "poisson": [], "currents": [], "probes": []}


CELLS = "[groups.cells]\nsize = 3\n"
MISTAKES = [
    ("", "x.toml must have a group of neurons, but got none: for instance [groups.excitatory] with size = 100."),
    ("groups = 3", "x.toml must have a group of neurons, but got 3: for instance [groups.excitatory] with size = 100."),
    (
        "[groups.input]\nsize = 2\nrate = 5",
        "x.toml must have a group of neurons, but got only sources, which have a rate.",
    ),
    (
        "[group.cells]\nsize = 3",
        "x.toml has the sections groups, connections, poisson, currents, probes, but got 'group': did you mean "
        "'groups'?",
    ),
    ("[groups.cells]\n", "groups.cells in x.toml must have the key size, but got an empty table."),
    ("[groups.cells]\ntau_m = 2", "groups.cells in x.toml must have the key size, but got only tau_m."),
    ("[groups.cells]\nsize = 0", "groups.cells.size in x.toml must be at least 1, but got 0."),
    ("[groups.cells]\nsize = 2.5", "groups.cells.size in x.toml must be a whole number, but got 2.5."),
    ("[groups.cells]\nsize = true", "groups.cells.size in x.toml must be a whole number, but got True."),
    ("[groups.cells]\nsize = 3\ntau_m = 0", "groups.cells.tau_m in x.toml must be above 0, but got 0."),
    ("[groups.cells]\nsize = 3\ntau_m = nan", "groups.cells.tau_m in x.toml must be a number, but got nan."),
    (
        "[groups.cells]\nsize = 3\nstart = [1.0]",
        "groups.cells.start in x.toml must be a number or [lowest, highest], but got [1.0].",
    ),
    (
        "[groups.cells]\nsize = 3\ntau = 5.0",
        "groups.cells in x.toml has the keys size, tau_m, tau_ref, rest, threshold, reset, start, but got 'tau': did "
        "you mean 'tau_m'?",
    ),
    (
        "[groups.input]\nsize = 3\nrate = 5\ntau_m = 5.0",
        "groups.input in x.toml has the keys size, rate, but got 'tau_m'.",
    ),
    (
        CELLS + "[connections]\nfrom = 'cells'",
        "connections in x.toml must be a list of tables, but got a table: begin each with [[connections]].",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cell'\nweight = 1",
        "connections[1].to in x.toml must be a group, cells, but got 'cell': did you mean 'cells'?",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 3\nweight = 1",
        "connections[1].to in x.toml must be a group, cells, but got 3.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'",
        "connections[1] in x.toml must have the key weight, but got only from, to.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = '1'",
        "connections[1].weight in x.toml must be a number, but got '1'.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = 1\nprobability = 1.5",
        "connections[1].probability in x.toml must be at most 1, but got 1.5.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = 1\nprobability = 0.5\nfan_in = 2",
        "connections[1] in x.toml must have a probability or a fan_in, but got both: remove one of them.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = 1\nstdp = { tau_plus = 0.0 }",
        "connections[1].stdp.tau_plus in x.toml must be above 0, but got 0.0.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = 1\nstdp = 1",
        "connections[1].stdp in x.toml must be a table, but got 1.",
    ),
    (
        CELLS + "[[poisson]]\nto = 'cells'\nrate = -5\nweight = 1",
        "poisson[1].rate in x.toml must be at least 0, but got -5.",
    ),
    (
        CELLS + "[[connections]]\nfrom = 'cells'\nto = 'cells'\nweight = 1\ntau = -1",
        "connections[1].tau in x.toml must be above 0, but got -1: leave it out for delta synapses.",
    ),
    (
        CELLS + "[[probes]]\ngroup = 'cells'\nneurons = [0, 1.5]",
        "probes[1].neurons in x.toml must be a list of whole numbers, but got [0, 1.5].",
    ),
    (
        "[groups.cells\nsize = 3",
        "x.toml must be a TOML file, but got a mistake in it (expected ']' at the end of a table declaration (at line "
        "1, column 14)).",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES, ids=[sentence[:50] for _, sentence in MISTAKES])
def test_a_mistake_is_named_with_its_key(text: str, sentence: str):
    with pytest.raises(InputError) as error:
        parse_network(text, "x.toml", KEYS)
    assert str(error.value) == sentence


def test_a_file_must_be_there_and_be_text(tmp_path: Path):
    with pytest.raises(InputError) as error:
        read_network(tmp_path / "network.toml", KEYS)
    assert str(error.value) == (
        f"a network is described by a TOML file, but got '{tmp_path}/network.toml', which is none: `neuropil show "
        "spiking_network` has an example."
    )
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# \xe9")
    with pytest.raises(InputError) as error:
        read_network(path, KEYS)
    assert str(error.value) == "latin.toml must be text in UTF-8, but got other bytes: save it as UTF-8."
