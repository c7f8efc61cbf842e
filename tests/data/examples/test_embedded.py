import subprocess
import sys

import torch

from neuropil.data.examples.embedded import load_digits
from real_data import digits


def test_the_digits_are_those_of_scikit_learn():
    images, labels = digits()
    examples = load_digits()
    assert torch.equal(examples.inputs, torch.from_numpy(images)[:, None])
    assert torch.equal(examples.targets, torch.from_numpy(labels))
    assert examples.schema.to_dict() == {
        "kind": "image",
        "shape": [1, 8, 8],
        "classes": list("0123456789"),
        "labels": [],
        "columns": [],
        "target": "",
        "encoding": "",
        "imputed": [],
        "offsets": [],
        "target_offset": 0.0,
    }
    assert examples.source == "1,797 hand-written digits of 8×8 (scikit-learn)"


def test_reading_them_imports_nothing_heavy():
    script = (
        "import sys; from neuropil.data.examples.files import DataConfig, prepare; prepare(DataConfig(), 0); "
        "sys.exit(any(name in sys.modules for name in ('sklearn', 'PIL', 'matplotlib', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
