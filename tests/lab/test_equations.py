import xml.etree.ElementTree as ET

import pytest

from neuropil import recipes
from neuropil.lab.equations import EquationLine, mathml, paragraphs

SPACE = "{http://www.w3.org/1998/Math/MathML}"


def shape(text: str) -> str:
    """The MathML of an equation, without the rows and spaces around it."""
    xml = mathml(text).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    return xml.removeprefix("<math><mrow>").removesuffix("</mrow></math>")


def test_letters_are_raised_and_lowered_by_unicode_and_by_signs():
    lowered = "<msub><mi>x</mi><mrow><mi>i</mi></mrow></msub>"
    assert shape("x_i") == shape("xᵢ") == lowered
    raised = "<msup><mi>W</mi><mrow><mi>T</mi></mrow></msup>"
    assert shape("Wᵀ") == raised
    both = "<msubsup><mi>σ</mi><mrow><mi>t</mi></mrow><mrow><mn>2</mn></mrow></msubsup>"
    assert shape("σ_t²") == both
    assert shape("e^{−x}") == "<msup><mi>e</mi><mrow><mrow><mo>−</mo><mi>x</mi></mrow></mrow></msup>"


def test_names_stand_upright_and_products_of_letters_do_not():
    assert shape("τ_ref") == '<msub><mi>τ</mi><mrow><mi mathvariant="normal">ref</mi></mrow></msub>'
    assert shape("dv") == "<mi>d</mi><mi>v</mi>"
    assert '<mi mathvariant="normal">tanh</mi>' in shape("tanh(x)")


def test_a_root_covers_its_bracket():
    assert shape("√(1−β)") == "<msqrt><mrow><mn>1</mn><mo>−</mo><mi>β</mi></mrow></msqrt>"


def test_text_of_a_user_is_escaped():
    assert "<script>" not in mathml("x = <script>")


def test_a_line_is_an_equation_and_what_it_says():
    (block,) = paragraphs("    o = σ(x)          output: how much of the cell is shown\n    y  = 2")
    first, second = block
    assert isinstance(first, EquationLine)
    assert isinstance(second, EquationLine)
    assert [is_math for _, is_math in first.parts] == [True, False]
    assert first.parts[1][0] == "output: how much of the cell is shown"
    assert [is_math for _, is_math in second.parts] == [True]  # the aligned sign is its own


def test_code_is_left_as_it_is_written():
    (block,) = paragraphs('    [groups.excitatory]\n    size = 400\n      to = "inhibitory"')
    assert [line.parts for line in block if isinstance(line, EquationLine)] == [
        (("[groups.excitatory]", False),),
        (("size = 400", False),),
        (('  to = "inhibitory"', False),),
    ]
    (block,) = paragraphs('    (w ⋆ x)[i] = Σ_a w[a] x[i + a]   what libraries call "convolution"')
    assert [is_math for line in block if isinstance(line, EquationLine) for _, is_math in line.parts] == [True, False]


@pytest.mark.parametrize("system", recipes.SYSTEMS, ids=lambda system: system.name)
def test_the_equations_of_every_system_are_well_formed(system: recipes.System):
    blocks = [block for block in paragraphs(recipes.recipe(system.name).equations) if not isinstance(block, str)]
    for part, is_math in (part for block in blocks for line in block for part in line.parts):
        if is_math:
            assert ET.fromstring(part).tag == f"{SPACE}math"  # noqa: S314  # our own
