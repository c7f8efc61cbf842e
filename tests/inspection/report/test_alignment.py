"""The alignment viewer: what its markup holds, as Python reads it, and what a browser makes of it."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from neuropil.errors import InputError
from neuropil.inspection.report.alignment import CAVEAT, Alignment, AttentionMap, quantised, shown, write_alignments
from neuropil.inspection.report.page import Html, Report, Section, render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

HOSTILE = [
    "<script>alert(1)</script>",
    "</template>",
    "</script><!--",
    "<img src=x onerror=alert(1)>",
    "&lt;",
    "'\"",
    "</neuropil-alignment>",
]


def weights(heads: int, queries: int, keys: int, seed: int = 0) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(heads, queries, keys)).astype(np.float32)
    return np.exp(3 * logits) / np.exp(3 * logits).sum(axis=-1, keepdims=True)


def example(queries: list[str], keys: list[str], *, heads: int = 2, names: tuple[str, ...] = ("cross",)) -> Alignment:
    return Alignment([AttentionMap(name, weights(heads, len(queries), len(keys)), queries, keys) for name in names])


class Viewer(HTMLParser):
    """What the markup of viewers holds: tags, data of scripts by type, cells of tables."""

    def __init__(self, markup: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.cells: list[str] = []
        self._type = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self._type = dict(attrs).get("type") or ""

    def handle_data(self, data: str) -> None:
        tag = self.tags[-1] if self.tags else ""
        if tag == "script" and data.strip() and self.cdata_elem == "script":
            self.scripts.append((self._type, data))
        if tag == "td" and data.strip():
            self.cells.append(data)

    def of_type(self, kind: str) -> list[str]:
        return [data for found, data in self.scripts if found == kind]

    def described(self) -> dict[str, Any]:
        return json.loads(self.of_type("application/json")[0])

    def head(self, number: int, shape: tuple[int, ...]) -> np.ndarray:
        return bytes_of(self.of_type("application/octet-stream")[number]).reshape(shape)


def bytes_of(packed: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)


@settings(deadline=None, max_examples=60)
@given(st_numpy.arrays(np.float32, st_numpy.array_shapes(max_dims=3), elements=st.floats(0, 1, width=32)))
def test_a_byte_per_weight_is_as_precise_as_it_says(values: np.ndarray):
    restored = (quantised(values).astype(np.float64) / 255) ** 2
    assert (np.abs(restored - values) <= np.sqrt(values) / 255 + 4e-6).all()
    assert (restored[values >= 4e-6] > 0).all()


@pytest.mark.parametrize(
    "kind", [np.asarray, torch.from_numpy, lambda array: torch.from_numpy(array).double().requires_grad_()]
)
def test_the_markup_holds_every_head_of_every_layer(kind: Any):
    first, second = weights(2, 5, 7), weights(3, 4, 4, seed=1)
    maps = [
        AttentionMap("cross", kind(first), list("vwxyz"), list("abcdefg")),
        AttentionMap("self", kind(second), list("wxyz"), list("wxyz")),
    ]
    viewer = Viewer(Alignment(maps).html())
    described = viewer.described()
    assert [(layer["name"], layer["heads"]) for layer in described["layers"]] == [("cross", 2), ("self", 3)]
    for number, expected in enumerate([*first, *second]):
        restored = (viewer.head(number, expected.shape) / 255.0) ** 2
        assert (np.abs(restored - expected) <= np.sqrt(expected) / 255 + 4e-6).all()
    assert len(viewer.of_type("application/octet-stream")) == 5


def test_half_precision_weights_are_accepted():
    half = torch.from_numpy(weights(1, 3, 3)).bfloat16()
    viewer = Viewer(Alignment([AttentionMap("half", half, "abc", "abc")]).html())
    np.testing.assert_allclose((viewer.head(0, (3, 3)) / 255.0) ** 2, half[0].float(), atol=0.004)


def test_texts_that_layers_share_are_written_once():
    described = Viewer(example(list("ab"), list("cde"), names=("one", "two")).html()).described()
    assert [text["tokens"] for text in described["texts"]] == [["a", "b"], ["c", "d", "e"]]
    assert [(layer["queries"], layer["keys"]) for layer in described["layers"]] == [(0, 1), (0, 1)]


def test_small_pictures_show_mean_largest_and_each_head_by_the_largest_weight_of_each_patch():
    values = weights(2, 50, 70)
    alignment = Alignment([AttentionMap("big", values, ["q"] * 50, ["k"] * 70)])
    pictures = bytes_of(Viewer(alignment.html()).described()["layers"][0]["thumbnails"]).reshape(4, 24, 24)
    views = quantised(np.stack([values.mean(axis=0), values.max(axis=0), *values]))
    for row in range(24):
        for column in range(24):
            patch = views[:, row * 50 // 24 : (row + 1) * 50 // 24, column * 70 // 24 : (column + 1) * 70 // 24]
            np.testing.assert_array_equal(pictures[:, row, column], patch.max(axis=(1, 2)))


def test_one_head_alone_has_no_mean_and_no_maximum():
    described = Viewer(example(list("ab"), list("cde"), heads=1).html()).described()
    assert bytes_of(described["layers"][0]["thumbnails"]).size == 2 * 3


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("word", "word"),
        (" ", "␣"),
        (" word", "␣word"),
        ("▁word", "␣word"),
        ("\u202f", "␣"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("", "∅"),
        ("\u0301", "◌\u0301"),
        ("\u0301a", "◌\u0301a"),
        ("e\u0301", "e\u0301"),
        ("\u093f", "◌\u093f"),
        ("\u200b", "U+200B"),
        ("\u200c", "╎"),
        ("\u200d", "‿"),
        ("می\u200cشود", "می\u200cشود"),
        ("\u202eabc", "U+202Eabc"),
        ("\x00", "U+0000"),
        ("\ud800", "U+D800"),
        ("👩‍👧", "👩‍👧"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(token: str, seen: str):
    assert shown(token) == seen


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=8))
def test_every_token_can_be_seen_and_written_to_a_file(token: str):
    assert shown(token).strip()
    shown(token).encode("utf-8")


@pytest.mark.parametrize(
    ("tokens", "joined"),
    [
        (["On", "Sunday", ",", "a", "train"], False),
        (["On", " Sunday", ",", " a", " train"], True),
        (["▁On", "▁Sunday", ","], True),
        ([*"2026-11-15", "<eos>"], True),
        ([*"یکشنبه ۱۵"], True),
        (["[CLS]", "train", "##s", "[SEP]"], False),
    ],
)
def test_letters_and_tokens_with_their_spaces_stand_together(tokens: list[str], joined: bool):
    assert Viewer(example(tokens, ["word", "word"]).html()).described()["texts"][0]["joined"] is joined


def test_no_token_name_or_title_becomes_markup():
    hostile = Alignment([AttentionMap(name, weights(2, 7, 7), HOSTILE, HOSTILE) for name in HOSTILE], HOSTILE[0])
    tame = Alignment(
        [AttentionMap(name, weights(2, 7, 7), list("abcdefg"), list("tuvwxyz")) for name in "abcdefg"], "title"
    )
    viewer, plain = Viewer(hostile.html()), Viewer(tame.html())
    assert viewer.tags == plain.tags
    assert viewer.described()["texts"][0]["tokens"] == [token.replace(" ", "␣") for token in HOSTILE]
    assert [layer["name"] for layer in viewer.described()["layers"]] == HOSTILE


def test_without_a_script_the_strongest_link_of_each_query_can_be_read():
    values = np.array([[[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]], [[0.7, 0.3, 0.0], [0.0004, 0.0002, 0.0]]], dtype=np.float32)
    markup = Alignment([AttentionMap("cross", values, ["eins", "zwei"], ["one", "<two>", " three"])]).html()
    assert Viewer(markup).cells == ["eins", "one", "0.80", "zwei", "␣three", "0.40"]
    assert "<details open><summary>Strongest links of <bdi>cross</bdi> (mean over the 2 heads)</summary>" in markup


def test_it_says_that_attention_is_no_explanation():
    assert CAVEAT in example(["a"], ["b"]).html()


def test_signs_for_joiners_are_explained_where_they_stand():
    assert f"{CAVEAT} ╎ is a zero-width non-joiner.</p>" in example(["a"], [*"سه\u200cشنبه"]).html()
    assert f"{CAVEAT}</p>" in example(["a"], ["سه\u200cشنبه"]).html()


def test_viewers_on_one_page_share_no_id_and_run_one_script(tmp_path: Path):
    write_alignments(tmp_path / "page.html", [example(["a"], ["b"]), example(["c", "d"], ["e"])], "Two")
    viewer = Viewer((tmp_path / "page.html").read_text(encoding="utf-8"))
    sections = ["attention", "attention-2"]
    assert viewer.ids == sections
    first, second, _of_the_report = viewer.of_type("")
    assert first == second


def test_a_page_of_its_own_and_a_notebook_show_the_same_viewer(tmp_path: Path):
    alignment = example(["a", "b"], ["c"])
    alignment.write(tmp_path / "page.html")
    assert alignment.html() in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert alignment._repr_html_() == alignment.html()


def test_an_alignment_without_maps_is_refused():
    with pytest.raises(InputError) as error:
        Alignment([])
    assert str(error.value) == "an alignment needs at least one attention map, but got none."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.zeros((1, 3, 2)),
            "the attention map 'cross' needs one label per query, but got 2 labels for weights of shape 1 × 3 × 2.",
        ),
        (
            np.zeros((1, 2, 3)),
            "the attention map 'cross' needs one label per key, but got 2 labels for weights of shape 1 × 2 × 3.",
        ),
        (
            np.full((1, 2, 2), 1.5),
            "the attention map 'cross' needs weights between 0 and 1, but got values from 1.5 to 1.5:"
            " pass what the softmax gives, not the scores.",
        ),
        (
            np.array([[[0.5, 0.5], [-1.0, 0.5]]]),
            "the attention map 'cross' needs weights between 0 and 1, but got values from -1 to 0.5:"
            " pass what the softmax gives, not the scores.",
        ),
        (
            torch.tensor([[[0.5, float("nan")], [0.5, 0.5]]]),
            "the attention map 'cross' needs weights between 0 and 1, but got values that are not finite.",
        ),
        (
            np.array([[[0.5, np.inf], [0.5, 0.5]]]),
            "the attention map 'cross' needs weights between 0 and 1, but got values that are not finite.",
        ),
        (
            np.zeros((4, 1, 2, 2)),
            "the attention map 'cross' needs weights of shape head × query × key, with at least one of each,"
            " but got the shape 4 × 1 × 2 × 2: choose one example of a batch, as in weights[0].",
        ),
        (
            np.zeros((0, 2, 2)),
            "the attention map 'cross' needs weights of shape head × query × key, with at least one of each, but got "
            "the shape 0 × 2 × 2.",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(values: Any, message: str):
    with pytest.raises(InputError) as error:
        AttentionMap("cross", values, ["a", "b"], ["c", "d"])
    assert str(error.value) == message


def test_weights_that_round_beyond_one_are_accepted():
    viewer = Viewer(Alignment([AttentionMap("cross", np.array([[[1 + 1e-6, -1e-7]]]), ["a"], ["b", "c"])]).html())
    assert viewer.head(0, (2,)).tolist() == [255, 0]


def luminance(colour: np.ndarray) -> float:
    """Relative luminance as WCAG 2 defines it."""
    return float(
        np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    )


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for_under_any_weight(scheme: int):
    css, script = (
        resources.files("neuropil.inspection.report").joinpath(f"alignment.{kind}").read_text(encoding="utf-8")
        for kind in ("css", "js")
    )
    share = float(re.findall(r"([\d.]+) \* share}%", script)[0])
    pairs = {name: pair for name, *pair in re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\);", css)}
    colours = {name: np.frombuffer(bytes.fromhex(pair[scheme]), np.uint8) / 255 for name, pair in pairs.items()}
    heaviest = share * colours["accent"] + (1 - share) * colours["tint"]
    texts = [
        ("ink", colours["paper"]),
        ("ink", colours["tint"]),
        ("ink", heaviest),
        ("muted", colours["paper"]),
        ("mark", colours["paper"]),
    ]
    for name, paper in texts:
        bright, dim = sorted((luminance(colours[name]), luminance(paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, name


def test_the_colours_are_those_of_a_report():
    folder = resources.files("neuropil.inspection.report")
    report, alignment = (folder.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in ("page", "alignment"))
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w{6});", part))
        for part in re.findall(r":root \{(.*?)\}", report, flags=re.DOTALL)
    )
    for name in ("paper", "tint", "ink", "muted", "rule", "accent"):
        assert f"--{name}: light-dark({light[name]}, {dark[name]});" in alignment


# ---- in a browser


def browsed(markup: str, folder: Path) -> str:
    """The page after its scripts have run."""
    page = folder / "page.html"
    page.write_text(markup, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", profile]
    command += ["--window-size=1200,1000", "--virtual-time-budget=8000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def spoken(dom: str) -> list[str]:
    """What the status lines of ready viewers say."""
    statuses = re.findall(
        r'<neuropil-alignment data-ready="">.*?<p class="status"[^>]*>(.*?)</p>', dom, flags=re.DOTALL
    )
    return [re.sub(r"<[^>]*>", "", status).replace("&nbsp;", " ") for status in statuses]


def link(query: str, key: str) -> Alignment:
    values = np.array([[[0.05, 0.9, 0.05], [0.4, 0.3, 0.3]], [[0.15, 0.7, 0.15], [0.4, 0.3, 0.3]]], dtype=np.float32)
    return Alignment(
        [
            AttentionMap("first", values[:, ::-1].copy(), ["-", "+"], ["*", "/", "%"]),
            AttentionMap("last", values, [query, "."], [",", key, ";"]),
        ]
    )


needs_a_browser = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")


@needs_a_browser
def test_several_viewers_are_drawn_in_a_report_under_its_content_policy(tmp_path: Path):
    blocks = [Html(link("Sonntag", "Sunday").html()), Html(link("<script>alert(1)</script>", "یکشنبه").html())]
    dom = browsed(render(Report("Title", "Summary.", [Section("Both", blocks)])), tmp_path)
    first, second = spoken(dom)
    assert first == "Strongest link: Sonntag looks at Sunday 0.80"
    assert second == "Strongest link: &lt;script&gt;alert(1)&lt;/script&gt; looks at یکشنبه 0.80"
    small_pictures = re.findall(r'aria-label="(first|last), (mean|max|head 0|head 1)"[^>]*><canvas', dom)
    assert len(small_pictures) == 2 * 2 * 4


@needs_a_browser
def test_viewers_that_are_put_into_a_page_later_start_too(tmp_path: Path):
    """As notebooks do: the markup first, its scripts one by one, and perhaps before the cell is part of the page."""
    cells = json.dumps([link("eins", "one").html(), link("zwei", "two").html()]).replace("<", "\\u003c")
    notebook = f"""<!doctype html><meta charset=utf-8><body><script>
      for (const [number, html] of {cells}.entries()) {{
        const cell = document.createElement("div");
        cell.innerHTML = html;
        if (number === 0) document.body.append(cell);
        for (const old of cell.querySelectorAll("script:not([type])")) {{
          const fresh = document.createElement("script");
          fresh.textContent = old.textContent;
          old.replaceWith(fresh);
        }}
        document.body.append(cell);
      }}
    </script></body>"""
    assert spoken(browsed(notebook, tmp_path)) == [
        "Strongest link: eins looks at one 0.80",
        "Strongest link: zwei looks at two 0.80",
    ]


INK_AT_THE_EDGE = """
(async () => {
  const viewer = document.querySelector("neuropil-alignment");
  while (!("ready" in viewer.dataset)) await new Promise((done) => setTimeout(done, 10));
  const canvas = viewer.querySelector(".matrix canvas"), context = canvas.getContext("2d");
  const dark = (value, i) => i % 4 === 0 && value > 0 && value < 250;  // the red of each pixel
  const inked = (width, height) => [...context.getImageData(0, 0, width, height).data].some(dark);
  document.title = JSON.stringify([inked(1, canvas.height), inked(canvas.width, 1), inked(200, canvas.height)]);
})();
"""


@needs_a_browser
@pytest.mark.parametrize(("query", "key"), [("WWWWWWWWWWWWWWWW", "x"), ("x", "WWWWWWWWWWWWWWWW")])
def test_the_bold_label_of_what_is_pointed_at_is_not_cut(tmp_path: Path, query: str, key: str):
    head = "<!doctype html><meta charset=utf-8><title></title>"
    dom = browsed(f"{head}{link(query, key).html()}<script>{INK_AT_THE_EDGE}</script>", tmp_path)
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    assert json.loads(title[1]) == [False, False, True]


VISIT = """
(async () => {
  const [first, second] = document.querySelectorAll("neuropil-alignment"), said = [];
  while (!("ready" in first.dataset && "ready" in second.dataset)) await new Promise((done) => setTimeout(done, 10));
  const status = (viewer) => said.push(viewer.querySelector(".status").textContent);
  const [keys, queries] = first.querySelectorAll(".text"), canvas = first.querySelector(".matrix canvas");
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const over = (target) => target.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  over(queries.children[1]); status(first);
  over(keys.children[0]); status(first);
  keys.children[0].click(); keys.dispatchEvent(new PointerEvent("pointerleave")); status(first);
  first.querySelectorAll(".head")[6].click();
  const wait = () => new Promise((done) => setTimeout(done, 10));
  while (!first.querySelector(".chosen").textContent.includes("head 0")) await wait();
  status(first);
  press(first, "Escape"); status(first);
  press(canvas, "ArrowDown"); status(first);
  const shades = [...keys.children].map((token) => Number(/([\\d.]+)%/.exec(token.style.background)?.[1] ?? 0) > 0);
  document.title = JSON.stringify([said, second.querySelector(".status").textContent, shades]);
})();
"""


@needs_a_browser
def test_pointing_shades_both_ways_a_click_pins_and_the_other_viewer_does_not_notice(tmp_path: Path):
    page = (
        "<!doctype html><meta "
        f"charset=utf-8><title></title>{link('a1', 'b1').html()}{link('a2', 'b2').html()}<script>{VISIT}</script>"
    )
    dom = browsed(page, tmp_path)
    said, other, shades = json.loads(
        re.findall(r"<title>(.*?)</title>", dom)[0].replace("\u00a0", " ").replace("&nbsp;", " ")
    )
    assert said == [
        ". looks at , 0.40, b1 0.30, ; 0.30",
        ", is looked at by . 0.40, a1 0.10",
        "Pinned: , is looked at by . 0.40, a1 0.10",
        "Pinned: , is looked at by . 0.40, a1 0.050",
        "Strongest link: a1 looks at b1 0.90",
        ". looks at b1 0.30",
    ]
    assert other == "Strongest link: a2 looks at b2 0.80"
    assert shades == [True, True, True]


@needs_a_browser
def test_without_its_script_the_table_stays_open(tmp_path: Path):
    page = re.sub(
        r"<script>.*?</script>", "", f"<!doctype html><meta charset=utf-8>{link('eins', 'one').html()}", flags=re.DOTALL
    )
    dom = browsed(page, tmp_path)
    assert '<details open="">' in dom
    assert '<details open="">' not in browsed(
        f"<!doctype html><meta charset=utf-8>{link('eins', 'one').html()}", tmp_path
    )
