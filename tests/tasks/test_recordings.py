from pathlib import Path

import numpy as np
import torch

from neuropil.tasks.recordings import write_arrays


def test_arrays_and_tensors_come_back_by_their_names(tmp_path: Path):
    times = torch.rand(3, requires_grad=True)
    write_arrays(tmp_path / "spikes.npz", times=times, neurons=np.arange(3))
    with np.load(tmp_path / "spikes.npz", allow_pickle=False) as found:
        assert found.files == ["times", "neurons"]
        np.testing.assert_array_equal(found["times"], times.detach().numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["spikes.npz"]
