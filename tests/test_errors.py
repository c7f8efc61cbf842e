from neuropil.errors import InputError, counted, did_you_mean, listed, nearest


def test_the_one_message_form():
    assert str(InputError("a rule")) == "a rule."
    assert str(InputError("a rule", got="that")) == "a rule, but got that."
    assert str(InputError("a rule", got="that", fix="do this")) == "a rule, but got that: do this."
    assert str(InputError("a rule", got="that", fix="did you mean 'x'?")) == "a rule, but got that: did you mean 'x'?"


def test_what_a_file_holds_does_not_fill_the_screen():
    error = InputError("r" * 2_000, got="g" * 2_000, fix="f" * 9_000)
    assert str(error) == f"{'r' * 1_000}…, but got {'g' * 1_000}…: {'f' * 4_000}…."


def test_what_a_file_holds_does_not_speak_to_the_terminal():
    """Colours, a new title, a line that overwrites this one, letters from right to left."""
    error = InputError("a\x1b[31mrule", got="\x1b]0;title\x07", fix="x\r\n\u202eflip\x9b")
    assert str(error) == r"a\x1b[31mrule, but got \x1b]0;title\x07: x\r\n\u202eflip\x9b."


def test_of_a_million_names_only_some_are_compared():
    assert did_you_mean("sise", (f"{'column' * 1_000}{number}" for number in range(1_000_000))) is None


def test_nearest_offers_one_name_or_all():
    assert nearest("cnm", ["mlp", "cnn"]) == "did you mean 'cnn'?"
    assert nearest("PRICE", ["Prices", "sizes"]) == "did you mean 'Prices'?"
    assert nearest("zzz", ["mlp", "cnn"]) == "choose from mlp, cnn"


def test_of_many_names_the_most_alike_are_offered():
    names = ["dropout", "learning_rate", "momentum", *(f"x{number}" for number in range(30))]
    assert nearest("lr_drop", names) == "most like it are dropout, learning_rate, momentum, x0, x1"
    assert nearest("dropuot", names) == "did you mean 'dropout'?"


def test_umlauts_may_be_typed_as_two_letters():
    assert did_you_mean("Groesse", ["Farbe", "Größe"]) == "did you mean 'Größe'?"
    assert did_you_mean("größe", ["Farbe", "Groesse"]) == "did you mean 'Groesse'?"


def test_the_nearest_name_is_found_whatever_its_case():
    assert did_you_mean("sise", ["Prices", "Size"]) == "did you mean 'Size'?"
    assert did_you_mean("xyz", ["Prices", "Size"]) is None


def test_a_long_list_is_cut_off():
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"c{i}" for i in range(2000)], most=2) == "c0, c1 and 1,998 more"


def test_a_count_of_one_has_no_plural():
    assert [counted(number, "row") for number in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(number, "class") for number in (1, 2)] == ["1 class", "2 classes"]
