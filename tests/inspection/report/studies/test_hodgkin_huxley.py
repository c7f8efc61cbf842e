import torch

from neuropil.inspection.report.studies.hodgkin_huxley import _undershoot


def test_an_undershoot_is_spoken_of_where_there_is_one():
    assert _undershoot(torch.tensor([-65.0, 40.0, -75.0]), -65.0) == ", which takes the voltage 10.0 mV below rest"
    assert _undershoot(torch.tensor([-65.0, 40.0, -60.0]), -65.0) == ", and the voltage stays above rest"
