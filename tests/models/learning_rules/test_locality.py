"""What is declared of every rule; tests/recipes/test_learning_rules.py compares it with what is measured."""

from neuropil.models.learning_rules.locality import LOCALITY


def test_a_rule_that_reads_later_weights_is_not_called_local_without_reserve():
    for name, known in LOCALITY.items():
        assert not (known.reads_later_weights and known.local == "yes"), name
        assert all((known.before, known.after, known.signal, known.local)), name
