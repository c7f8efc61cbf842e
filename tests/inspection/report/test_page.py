import base64
import functools
import hashlib
import io
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from neuropil.errors import InputError
from neuropil.inspection.report.page import (
    Code,
    Gallery,
    Html,
    Number,
    Numbers,
    Picture,
    Report,
    Section,
    Table,
    Text,
    Thumbnail,
    render,
    write_report,
)


class Page(HTMLParser):
    """What a browser would make of the markup: tags with attributes, and the text between them."""

    def __init__(self, markup: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self) -> str:
        return "".join(text for tag, text in self.texts if tag not in ("style", "script"))


def figure(title: str = "a title") -> Figure:
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], "o-", label="squares")
    axes.imshow(np.eye(3))
    axes.set_title(title)
    return figure


@functools.cache
def drawing() -> str | bytes:
    return Picture.of(figure(), alt="").image


def report_of(*blocks, title: str = "A title") -> Report:
    return Report(title, "What was done.", [Section("Part", list(blocks))])


def everything(word: str = "x") -> Report:
    """One block of each kind, with `word` at every place that takes text."""
    small = np.arange(12, dtype=np.uint8).reshape(3, 4)
    blocks = [
        Text(word),
        Numbers([Number(word, word, word, good=True), Number(word, word, good=False), Number(word, word)]),
        Table([word, "number"], [[word, 1.5], [word, 2]], caption=word),
        Picture(drawing(), alt=word, caption=word),
        Gallery([Thumbnail(small, word, word)]),
        Code(word),
        Html("<svg><circle r='3'/></svg>"),
    ]
    return Report(word, word, [Section(word, blocks), Section(word, [])])


def test_a_page_refers_to_nothing_outside_itself():
    markup = render(everything())
    for _, attributes in Page(markup).tags:
        for name, value in attributes.items():
            if name.split(":")[-1] in ("src", "href", "srcset", "action", "poster", "background", "formaction", "data"):
                assert value.startswith(("#", "data:image/")), (name, value)
    assert "://" not in markup
    assert not re.search(r"@import|url\((?!#)", markup)


def test_the_browser_is_told_to_fetch_nothing_and_to_run_only_our_script():
    page = Page(render(everything()))
    (policy,) = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    script = next(text for tag, text in page.texts if tag == "script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    directives = dict(directive.strip().split(" ", 1) for directive in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["img-src"] == "data:"
    assert directives["script-src"] == f"'sha256-{digest}'"


def test_a_script_of_our_own_viewer_may_run_too():
    page = Page(render(report_of(Html("<script>let x = 1 < 2</script>"))))
    digest = base64.b64encode(hashlib.sha256(b"let x = 1 < 2").digest()).decode()
    assert f"'sha256-{digest}'" in page.all("meta")[1]["content"]


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="`"), min_size=1, max_size=30))
def test_no_text_becomes_markup(word: str):
    page, plain = Page(render(everything(word))), Page(render(everything("x")))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.text().count(word) >= 12
    assert {image["alt"] for image in page.all("img")} == {word}


def test_backticks_make_code_whose_content_is_escaped():
    assert '<p dir="auto">run <code>a &lt; b</code> now</p>' in render(report_of(Text("run `a < b` now")))


def test_blank_lines_part_paragraphs():
    assert '<p dir="auto">one</p>\n<p dir="auto">two\nlines</p>' in render(report_of(Text("one\n \ntwo\nlines\n")))


def test_every_picture_has_words_for_those_who_do_not_see_it():
    page = Page(render(everything("shown")))
    drawings = [drawing for drawing in page.all("svg") if drawing.get("role") == "img"]
    assert [drawing["aria-label"] for drawing in drawings] == ["shown"]
    assert all(image["alt"] == "shown" for image in page.all("img"))


def test_headings_are_in_order_and_every_entry_of_the_contents_leads_to_its_section():
    page = Page(render(everything()))
    assert [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)] == ["h1", "h2", "h2"]
    targets = [link["href"] for link in page.all("a") if "class" not in link]
    assert targets == [f"#{section['id']}" for section in page.all("section")]


def test_sections_of_the_same_name_and_of_any_script_have_anchors_of_their_own():
    sections = [Section(title, []) for title in ("Result", "Result", "نتیجه", "…", "…", "Result 2")]
    page = Page(render(Report("title", "", sections)))
    assert [section["id"] for section in page.all("section")] == [
        "result",
        "result-2",
        "نتیجه",
        "section",
        "section-2",
        "result-2-2",
    ]


def test_texts_of_any_direction_find_their_own():
    page = Page(render(everything("سلام")))
    for tag in ("h1", "h2", "p", "td", "th", "caption", "dt"):
        assert all(attributes.get("dir") == "auto" for attributes in page.all(tag)), tag


@pytest.mark.parametrize(
    ("word", "direction"),
    [("word", "ltr"), ("1 کلمه", "rtl"), ("كلمة", "rtl"), ("מילה", "rtl"), ("語", "ltr"), ("…", "ltr")],
)
def test_the_first_column_of_a_table_stands_where_its_readers_begin(word: str, direction: str):
    assert Page(render(report_of(Table([word, "2"], [[1, 2]])))).all("table") == [{"dir": direction}]


def test_pictures_in_one_page_share_no_id_and_all_their_references_lead_somewhere():
    picture = Picture.of(figure(), alt="the same picture twice")
    markup = render(report_of(picture, picture))
    ids = re.findall(r'\bid="([^"]+)"', markup)
    references = re.findall(r'(?:url\(|xlink:href=")#([^)"]+)', markup)
    assert len(ids) == len(set(ids))
    assert len(references) > 4
    assert set(references) <= set(ids)


def test_a_png_is_shown_as_it_is():
    page = Page(render(report_of(Picture(b"\x89PNG bytes", alt="a photograph"))))
    assert base64.b64decode(page.all("img")[0]["src"].removeprefix("data:image/png;base64,")) == b"\x89PNG bytes"


def test_small_thumbnails_keep_every_pixel():
    for shape in ((8, 8), (5, 7, 3)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        source = Page(render(report_of(Gallery([Thumbnail(pixels, "a digit")])))).all("img")[0]["src"]
        shown = Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))
        np.testing.assert_array_equal(np.asarray(shown), pixels)


def test_photographs_are_shrunk_to_what_the_page_shows():
    noise = np.random.default_rng(0).integers(0, 256, (600, 300, 3), dtype=np.uint8)
    source = Page(render(report_of(Gallery([Thumbnail(noise, "noise")])))).all("img")[0]["src"]
    shown = Image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/jpeg;base64,"))))
    assert shown.size == (120, 240)


def cells(table: Table) -> list[tuple[str, bool]]:
    markup = render(report_of(table))
    return [(text, bool(kind)) for kind, text in re.findall(r'<td( class="numeric")? dir="auto">([^<]*)</td>', markup)]


def test_numbers_are_aligned_with_as_many_digits_as_they_need():
    rows = [["a", 1200, 0.5, "99.2 %", True], ["b", 7, 12.25, "–", False]]
    expected = [("a", False), ("1,200", True), ("0.50", True), ("99.2 %", True), ("yes", False)]
    expected += [("b", False), ("7", True), ("12.25", True), ("–", True), ("no", False)]
    assert cells(Table(list("vwxyz"), rows)) == expected


def test_numbers_that_span_many_decades_are_written_in_short():
    assert [text for text, _ in cells(Table(["x"], [[1.5e-9], [float("nan")], [123456.0], [0.0]]))] == [
        "1.5e-09",
        "nan",
        "1.23e+05",
        "0",
    ]


def test_names_in_the_first_column_stay_on_the_left_even_where_they_are_digits():
    assert cells(Table(["class", "examples"], [["0", 36], ["1", 35]])) == [
        ("0", False),
        ("36", True),
        ("1", False),
        ("35", True),
    ]


def test_a_row_that_does_not_fit_its_header_is_refused():
    with pytest.raises(InputError) as error:
        Table(["a", "b"], [["1"]])
    assert str(error.value) == "every row of this table must have 2 cells, but got 1 in ('1',)."


def test_a_report_replaces_its_file_at_once_and_leaves_nothing_beside_it(tmp_path: Path):
    path = tmp_path / "runs" / "report.html"
    for title in ("first", "second"):
        write_report(path, report_of(title=title))
    assert "<title>second</title>" in path.read_text(encoding="utf-8")
    assert list(path.parent.iterdir()) == [path]


def test_the_same_report_is_the_same_file():
    assert render(everything()) == render(everything())


def colours(css: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", css))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(scheme: str):
    css = resources.files("neuropil.inspection.report").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    palette = colours(light) | (colours(dark) if scheme == "dark" else {})
    for ink in ("ink", "muted", "accent", "good", "bad"):
        for paper in ("paper", "tint"):
            bright, dim = sorted((luminance(palette[ink]), luminance(palette[paper])), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, paper)
