import numpy as np
import torch
from torch import nn

from neuropil.inspection.covariate_shift import record_inputs


def test_means_and_deviations_are_those_of_the_inputs_in_training():
    layer = nn.Linear(3, 2)
    first, second = torch.randn(20, 3), 2 * torch.randn(20, 3) + 5
    with record_inputs(layer) as record:
        layer(first)
        layer.eval()(100 * first)
        layer.train()(second)
    assert len(record.means) == 2
    one, other = first.double().numpy(), second.double().numpy()
    spread = np.sqrt(one.var(axis=0).mean())
    np.testing.assert_allclose(record.spreads, [spread, np.sqrt(other.var(axis=0).mean())])
    expected = np.sqrt(((other.mean(axis=0) - one.mean(axis=0)) ** 2).mean()) / spread
    np.testing.assert_allclose(record.shifts, [0, expected])
    assert not layer._forward_pre_hooks
