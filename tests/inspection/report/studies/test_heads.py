from neuropil.inspection.report.studies.heads import needless


def test_needless_heads_are_those_before_the_mean_has_fallen_by_a_point():
    curve = {4: [0.9, 0.8], 3: [0.85, 0.84], 2: [0.8, 0.8], 1: [0.9, 0.9], 0: [0.1, 0.1]}
    assert needless(curve) == 1
    assert needless({2: [0.5], 1: [0.5], 0: [0.495]}) == 2
    assert needless({2: [0.5], 1: [0.4], 0: [0.4]}) == 0
