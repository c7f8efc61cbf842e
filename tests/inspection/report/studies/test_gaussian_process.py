import torch

from neuropil.inspection.report.studies.gaussian_process import signs


def test_negative_weights_are_spoken_of_where_there_are_any():
    assert signs(torch.tensor([[0.5, 0.5]])) == "Here no weight of the process is negative."
    assert signs(torch.tensor([[1.5, -0.5]])).startswith("Of the weights of the process 50.0 % are negative: ")
