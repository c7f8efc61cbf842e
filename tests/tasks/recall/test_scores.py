import torch

from neuropil.tasks.recall.scores import nearest_pattern, recall_scores, settled_at


def test_scores_count_whole_patterns_and_signs():
    patterns = torch.tensor([[1.0, 1, 1, 1], [-1, -1, 1, 1]])
    states = torch.tensor([[1.0, 1, 1, 1], [-1, -1, 1, -1]])
    assert recall_scores(states, patterns) == {"recalled": 0.5, "overlap": 0.75}


def test_the_nearest_pattern_agrees_with_most_of_the_known_units():
    patterns = torch.tensor([[1.0, 1, 1, 1], [-1, -1, 1, 1]])
    states = torch.tensor([[0.0, -1, 0, 0], [1, -1, 1, 1], [1, 1, -1, 1]])
    assert torch.equal(nearest_pattern(states, patterns), patterns[[1, 0, 0]])


def test_a_state_is_named_by_the_pattern_that_it_is_or_is_most_like():
    patterns = torch.tensor([[1.0, 1, 1, 1], [-1, -1, 1, 1]])
    states = torch.tensor([[-1.0, -1, 1, 1], [-1, -1, -1, -1], [1, 1, 1, -1]])
    assert settled_at(states, patterns, ["pattern 1 (a)", "pattern 2 (b)"]) == [
        "pattern 2 (b)",
        "the negative of pattern 1 (a)",
        "a spurious state, whose overlap with pattern 1 (a) is 0.50",
    ]
