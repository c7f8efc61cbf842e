from neuropil.errors import InputError, nearest


def test_the_one_message_form():
    assert str(InputError("a rule")) == "a rule."
    assert str(InputError("a rule", got="that")) == "a rule, but got that."
    assert str(InputError("a rule", got="that", fix="do this")) == "a rule, but got that: do this."
    assert str(InputError("a rule", got="that", fix="did you mean 'x'?")) == "a rule, but got that: did you mean 'x'?"


def test_nearest_offers_one_name_or_all():
    assert nearest("cnm", ["mlp", "cnn"]) == "did you mean 'cnn'?"
    assert nearest("PRICE", ["Prices", "sizes"]) == "did you mean 'Prices'?"
    assert nearest("zzz", ["mlp", "cnn"]) == "choose from mlp, cnn"
