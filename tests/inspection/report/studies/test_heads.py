from neuropil.inspection.report.studies.heads import difference, needless


def test_needless_heads_are_those_before_the_mean_has_fallen_by_a_point():
    curve = {4: [0.9, 0.8], 3: [0.85, 0.84], 2: [0.8, 0.8], 1: [0.9, 0.9], 0: [0.1, 0.1]}
    assert needless(curve) == 1
    assert needless({2: [0.5], 1: [0.5], 0: [0.495]}) == 2
    assert needless({2: [0.5], 1: [0.4], 0: [0.4]}) == 0


def test_a_difference_is_compared_with_what_chance_makes():
    chance = "what networks differ by that differ in their first weights and batches alone"
    assert difference([0.9, 0.92], [0.8, 0.85]) == f"The difference of 8.5 points is more than {chance}, 5.0 points."
    assert difference([0.8, 0.82], [0.79, 0.85]) == (
        f"The difference of −1.0 points is no more than {chance}, 6.0 points."
    )
    assert difference([0.9], [0.8]) == ""
