from neuropil.errors import InputError, did_you_mean, listed, nearest


def test_the_one_message_form():
    assert str(InputError("a rule")) == "a rule."
    assert str(InputError("a rule", got="that")) == "a rule, but got that."
    assert str(InputError("a rule", got="that", fix="do this")) == "a rule, but got that: do this."
    assert str(InputError("a rule", got="that", fix="did you mean 'x'?")) == "a rule, but got that: did you mean 'x'?"


def test_nearest_offers_one_name_or_all():
    assert nearest("cnm", ["mlp", "cnn"]) == "did you mean 'cnn'?"
    assert nearest("PRICE", ["Prices", "sizes"]) == "did you mean 'Prices'?"
    assert nearest("zzz", ["mlp", "cnn"]) == "choose from mlp, cnn"


def test_of_many_names_the_most_alike_are_offered():
    names = ["dropout", "learning_rate", "momentum", *(f"x{number}" for number in range(30))]
    assert nearest("lr_drop", names) == "most like it are dropout, learning_rate, momentum, x0, x1"
    assert nearest("dropuot", names) == "did you mean 'dropout'?"


def test_the_nearest_name_is_found_whatever_its_case():
    assert did_you_mean("sise", ["Prices", "Size"]) == "did you mean 'Size'?"
    assert did_you_mean("xyz", ["Prices", "Size"]) is None


def test_a_long_list_is_cut_off():
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"c{i}" for i in range(2000)], most=2) == "c0, c1 and 1,998 more"
