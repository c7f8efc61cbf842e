import numpy as np

from neuropil.inspection.report.studies.optimizers import Descent


def test_an_optimiser_has_converged_when_its_loss_stays_low():
    losses = np.array([1.0, 0.005, 0.5, *[0.004] * 17])
    assert Descent(0.1, np.zeros((20, 2)), losses).convergence() == 3
    assert Descent(0.1, np.zeros((20, 2)), np.array([1.0] * 19 + [0.0])).convergence() is None
    assert Descent(0.1, np.zeros((20, 2)), np.array([1.0, *[np.nan] * 19])).final == np.inf
