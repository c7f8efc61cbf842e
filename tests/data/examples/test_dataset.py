import json

import torch

from neuropil.data.examples.dataset import Column, Examples, Schema

TABLE = Schema(
    kind="table",
    shape=(3,),
    classes=("no", "yes"),
    columns=(Column(name="age", kind="number"), Column(name="colour", kind="category", values=("blue", "red"))),
    target="bought",
)


def test_a_schema_survives_json():
    assert Schema.from_dict(json.loads(json.dumps(TABLE.to_dict()))) == TABLE


def test_a_schema_knows_its_task_and_how_many_outputs_it_takes():
    regression = Schema(kind="table", shape=(3,), classes=())
    assert (TABLE.task, TABLE.num_outputs) == ("classification", 2)
    assert (regression.task, regression.num_outputs) == ("regression", 1)


def test_taking_examples_keeps_inputs_and_targets_together():
    examples = Examples(torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1]), TABLE, "four rows")
    taken = examples.take(torch.tensor([3, 0]))
    assert len(taken) == 2
    assert torch.equal(taken.inputs, torch.tensor([[9.0, 10, 11], [0, 1, 2]]))
    assert torch.equal(taken.targets, torch.tensor([1, 0]))
    assert (taken.schema, taken.source) == (TABLE, "four rows")
