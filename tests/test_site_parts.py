"""What the site is made of, without building it: examples that run, links that appear with an
address, pages for machines."""

import re
import sys

import numpy as np
import pytest
from common import ROOT, cells_in, outputs, script

from vit_theory.figures import pieces, subplots

sys.path.append(str(ROOT / "docs"))
import claim_pages  # noqa: E402
import finish  # noqa: E402
import panels  # noqa: E402

build = script("docs/build.py")
EXAMPLES = re.findall(
    r"```python\n(.*?)```",
    (ROOT / "docs" / "pages" / "api.md").read_text(encoding="utf-8"),
    flags=re.S,
)


def test_the_examples_of_the_functions_run():
    """One after the other, as a reader pastes them; each asserts what it shows."""
    names = {}
    for example in EXAMPLES:
        assert "assert " in example
        exec(example, names)
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("address", ["", "https://github.com/someone/vit_theory"])
def test_links_to_the_repository_appear_with_its_address(monkeypatch, address):
    monkeypatch.setattr(claim_pages, "settings", {"git_url": address, "branch": "main"}.__getitem__)
    links = " ".join(build.elsewhere("convolution/index"))
    assert ("Edit this page" in links) == bool(address)
    assert ("colab.research.google.com/github/someone/vit_theory/blob/main" in links) == bool(
        address
    )


HOME = """<head><meta name="description" content="All of it.">
<meta property="og:title" content="vit_theory"></head><article>home</article>"""


@pytest.mark.parametrize("base", ["", "https://example.org/"])
def test_pages_for_machines(tmp_path, base):
    """llms.txt always; a sitemap only where the address of the site is known."""
    finish.for_machines(tmp_path, {tmp_path / "index.html": HOME}, base)
    text = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# vit_theory\n> All of it.") and f"({base}index.html)" in text
    assert (tmp_path / "sitemap.xml").exists() == bool(base)
    assert not base or "<loc>https://example.org/index.html</loc>" in (
        tmp_path / "sitemap.xml"
    ).read_text(encoding="utf-8")


def test_numbers_and_signs_are_typeset():
    assert claim_pages.signs("x <= .31 +- .02, 0.5 >= A.3") == "x ≤ 0.31 ± 0.02, 0.5 ≥ A.3"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("<p>from .25/80 to .5, at -.3</p>", "<p>from 0.25/80 to 0.5, at −0.3</p>"),
        ("<td>1 &lt;= x &gt;= .1 +- .02</td>", "<td>1 ≤ x ≥ 0.1 ± 0.02</td>"),
        ("<p>95 % of 10^5, (1/x)^.99</p>", "<p>95% of 10<sup>5</sup>, (1/x)<sup>0.99</sup></p>"),
        ("<p>η^(−3/5) -&gt; 0</p>", "<p>η<sup>−3/5</sup> → 0</p>"),
    ],
)
def test_prose_on_a_page_is_typeset(typed, shown):
    assert finish.typeset(typed) == shown == finish.typeset(shown)


def test_what_is_no_prose_is_not_typeset():
    """Code, addresses, scripts, names; of a formula the numbers only."""
    for kept in (
        "<code>x &lt;= .5</code>",
        "<pre><span>a -&gt; 10^5</span></pre>",
        "<script>for (i = 0; i<n; i += .5) a +- b; 5 % 3</script>",
        '<a href="a.5?x=.5">v.5, 1..5</a>',
        '<dt class="sig">f(x=.5) -&gt; y</dt>',
    ):
        assert finish.typeset(kept) == kept
    span = '<span class="math notranslate nohighlight">\\(%s\\)</span>'
    formula = span % r".31 \\le x^{.5} -&gt; \\hspace{.3em} 10^5"
    assert finish.typeset(formula) == span % r"0.31 \\le x^{0.5} -&gt; \\hspace{.3em} 10^5"


def test_what_only_presents_is_hidden():
    """A card and a figure of committed data are; an experiment that runs live is not."""
    assert build.presenting('Card("A-noise")')
    assert build.presenting('plot_noise(measured("A-noise"))')
    assert not build.presenting("noise_curve(run)") and not build.presenting("x = train(model)")
    assert (
        build.marked("> **Quoted** (B, Definition 2.2).")
        == "{.box .box-quoted}\n> **Quoted** (B, Definition 2.2)."
    )
    assert build.marked("> **[Set-up](a.ipynb).** N").startswith("{.box .box-set-up}\n> **[")


def test_photographs_are_told_from_plots():
    """Of the stored pictures of two pages the photograph is one, the curves are none."""
    photographs_of = {}
    for name in ("01_attention.ipynb", "selection/08_iterations.ipynb"):
        photographs_of[name] = [
            build.photographic(png) for cell in cells_in(name) for png in outputs(cell, "image/png")
        ]
    assert any(photographs_of["01_attention.ipynb"]) and not any(
        photographs_of["selection/08_iterations.ipynb"]
    )


def test_an_explorers_page_ends_after_what_to_try():
    tries = '<section id="things-to-try"><h2>Try</h2></section>'
    code = '<section id="code"><h2>Code</h2></section>'
    page = f"<article><section>{tries}{code}</section></article>"
    assert finish.below_a_fold(page).index("<details") == page.index('<section id="code">')


def test_a_rule_for_one_of_several_classes_stays():
    """Of alternatives one that the site has is enough; a rule that needs a class that no page has
    goes."""
    kept = "".join(
        finish.used_part(
            "pre :is(.c, .c1) {a: b} p:has(.c, td) {c: d} .c .c1 {e: f} :is(.c, .d) p {g: h}",
            {"c1"},
        )
    )
    assert "a: b" in kept and "c: d" in kept and "e: f" not in kept and "g: h" not in kept


def test_the_pictures_of_the_readme_take_the_ink_of_a_page():
    """No white ground and no black letters are left, in none of them."""
    pictures = sorted((ROOT / "nbs" / "pictures").glob("*.svg"))
    assert len(pictures) >= 5
    for path in pictures:
        text = build.inked(path.read_text(encoding="utf-8"))
        assert "#ffffff" not in text and "#000000" not in text, path.name
        assert text.count("prefers-color-scheme") in (1, 2) and "currentColor" in text, path.name
        assert path.stem == "patch" or claim_pages.WORDS in text, path.name


def test_a_cell_of_the_list_says_its_column():
    head = "<thead><tr><th><p>claim</p></th><th><p>answer</p></th></tr></thead>"
    page = f"<table>{head}<tbody><tr><td>a</td><td>b</td></tr></tbody></table><td>c</td>"
    table = finish.with_heads(page)
    assert '<td data-head="claim">a</td><td data-head="answer">b</td>' in table
    assert table.count("data-head") == 2


def test_a_signature_of_several_lines_is_no_list_without_terms():
    lines = '<dd><em class="sig-param">x</em>, </dd>'
    signature = finish.SIGNATURE.sub(
        finish.signature, f"<dt><dl>\n{lines}{lines}</dl></dt><dl>other</dl>"
    )
    assert (
        signature.count("<span>") == 2 and "<dd>" not in signature and "<dl>other</dl>" in signature
    )


def two_panels(path, shared=False, title=None):
    """A map with a color bar beside a curve, or two curves on one axis, as a notebook stores it."""
    figure, (left, right) = subplots(1, 2, sharey=shared)
    if shared:
        left.plot([1, 2])
        left.margins(x=0)  # a number stands below the spine
    else:
        figure.colorbar(left.imshow(np.arange(64).reshape(8, 8)), ax=left)
    right.plot([2, 1])
    right.set(ylabel="" if shared else "height", xlabel="step")
    left.set(ylabel="row", title="left")
    if title:
        figure.suptitle(title)
    figure.savefig(path, dpi=200)
    return panels.delivered(path, 640)


def test_panels_are_pieces(tmp_path):
    parts, twin, axis = two_panels(tmp_path / "a.png")
    assert [ending for ending, *_ in parts] == ["-0", "-1"] and twin and not axis
    assert 630 < sum(width for _, width, *_ in parts) <= 640
    for ending, width, height, _ in parts:
        piece = panels.Image.open(tmp_path / f"a{ending}.png")
        assert abs(piece.width / piece.height * height / width - 1) < 0.02
        # each has its own panel, whole: nothing touches the edge of a cut
        pixels = panels.opened(piece)
        assert len(panels.panels(pixels)) == 1
        assert pixels[:, [0, -1]].min() == 255
    across = two_panels(tmp_path / "c.png", title="one title that goes across both of the panels")
    assert [alone for *_, alone in across[0]] == [True, False, False]
    figure, ax = subplots(width=6.4)
    ax.plot([1, 2])
    figure.savefig(tmp_path / "d.png", dpi=200)
    assert panels.delivered(tmp_path / "d.png", 640) == ([], False, 0)


def test_a_wide_picture_keeps_its_letters_on_a_phone(tmp_path):
    """In a frame, which scrolls there; what fits has none. A frame is of the picture's theme."""
    small, wide = '<img width="350">', '<img class="only-dark dark-light" width="500">'
    assert finish.legible(small, 350) == small
    framed = finish.legible(wide, 500)
    assert framed.startswith('<span class="frame only-dark"') and "--own: 480px" in framed
    assert wide in framed and 'tabindex="0"' in framed


def test_a_panel_brings_the_axis_that_it_shares(tmp_path):
    """A picture of the axis alone: numbers and spine, neither the title nor the numbers below."""
    parts, _, axis = two_panels(tmp_path / "b.png", shared=True)
    assert [ending for ending, *_ in parts] == ["-0", "-1"]
    whole = panels.opened(panels.Image.open(tmp_path / "b.png"))
    alone = panels.opened(panels.Image.open(tmp_path / "b-axis.png"))
    (left, top, _, bottom), _ = sorted(panels.panels(whole))
    assert alone.shape[:2] == (whole.shape[0], left + 3) and axis == round((left + 3) / 2)
    inside = slice(top, bottom)
    assert (alone[inside] == whole[inside, : left + 3]).all() and alone[inside].min() < 50
    beside = whole[bottom + 30 :, : left + 3]
    assert (alone[: top - 30] == 255).all() and (alone[bottom + 30 :] == 255).all()
    assert beside.min() < 50
    image = f'<img alt="curves" height="260" src="_images/{"0" * 64}.png" width="640" />'
    (tmp_path / "_images").mkdir()
    two_panels(tmp_path / "_images" / f"{'0' * 64}.png", shared=True)
    pieces = finish.with_pieces(tmp_path, {"page": image})["page"]
    first, second = pieces.split('<span class="sharing"')
    assert "-0.png" in first and "-1.png" in second
    assert second.index("-axis.png") < second.index("-1.png") and f"--axis: {axis};" in second


def test_in_the_dark_ink_is_light_and_a_map_keeps_its_colors(tmp_path):
    two_panels(tmp_path / "a.png")
    before = panels.opened(panels.Image.open(tmp_path / "a-0.png"))
    after = np.asarray(panels.Image.open(tmp_path / "a-0-dark.png"))
    (box,) = panels.panels(before)
    left, top, right, bottom = (box[0] + 5, box[1] + 5, box[2] - 5, box[3] - 5)
    inside = (slice(top, bottom), slice(left, right))
    assert (after[inside][..., :3] == before[inside]).all() and (after[inside][..., 3] == 255).all()
    ground = (before == 255).all(2)
    # a rim of the map and its bar may keep their white
    assert ground.mean() > 0.3 and (after[ground][:, 3] == 0).mean() > 0.99
    ink = (before.max(2) < 20)[:, : box[0] - 4]
    assert ink.sum() > 20 and (after[:, : box[0] - 4][ink][:, :3] > 200).all()


def test_a_page_shows_the_pieces_and_the_twin(tmp_path):
    (tmp_path / "_images").mkdir()
    name = "0" * 64
    two_panels(tmp_path / "_images" / f"{name}.png")
    page = f'<a><img alt="a map" height="260" src="_images/{name}.png" width="640" /></a>'
    pieces = finish.with_pieces(tmp_path, {"page": page})["page"]
    shown = re.findall(r'src="([^"]+)"', pieces)
    assert shown == [f"_images/{name}-{end}.png" for end in ("0", "1", "0-dark", "1-dark")]
    assert all((tmp_path / one).exists() for one in shown)
    assert 'class="panels only-light"' in pieces and 'class="panels only-dark dark-light"' in pieces
    other = '<img alt="drawn" src="_images/patch.svg" width="640">'
    assert finish.with_pieces(tmp_path, {"page": other})["page"] == other


def test_a_band_in_a_panel_is_no_map(monkeypatch):
    """Nor is a bar of a histogram; of pictures in one row all are of one kind, and white inside of
    one cuts nothing off."""
    panel, band, apart = (100, 10, 600, 400), (101, 100, 599, 200), (650, 10, 680, 400)
    tiles = [(110 + 100 * number, 100, 200 + 100 * number, 200) for number in range(4)]
    white = np.full((420, 700, 3), 255)
    for boxes, kept in (([band, apart], [apart]), ([*tiles, apart], [*tiles, apart])):
        monkeypatch.setattr(panels, "photographs", lambda _, boxes=boxes: boxes)
        assert panels.colored(white, [panel]) == ([panel], kept)
    row = [(10 + 120 * number, 10, 110 + 120 * number, 110) for number in range(4)]
    cut_off = (row[3][0], 10, row[3][0] + 40, 110)
    below = (370, 130, 470, 230)
    assert panels.completed([*row[:3], cut_off, below])[3] == row[3]
    assert panels.completed([*row[:3], (400, 300, 440, 340), below])[3] == (400, 300, 440, 340)


def test_a_photograph_of_an_explorer_has_its_twin(tmp_path):
    (tmp_path / "_images").mkdir()
    page = '<img alt="a panel" src="../_images/vit.png" /><img alt="other" src="_images/cat.png" />'
    assert finish.with_twins(tmp_path, page) == page
    (tmp_path / "_images" / "vit-dark.png").touch()
    twins = finish.with_twins(tmp_path, page)
    light, dark, other = re.findall(r"<img [^>]*>", twins)
    assert 'class="only-light"' in light and "/vit.png" in light and "cat.png" in other
    assert 'class="only-dark dark-light"' in dark and "/vit-dark.png" in dark
    shown = {path.stem for path in (ROOT / "nbs" / "explore" / "pictures").glob("*.png")}
    assert shown == {
        f"{name.removesuffix('-dark')}{end}" for name in shown for end in ("", "-dark")
    }


def test_the_figure_of_a_row_falls_apart_and_each_piece_says_its_axis():
    figure, axes = subplots(1, 2, sharey=True)
    for ax in axes:
        ax.plot([1, 2])
    axes[0].set_ylabel("height")
    figure.suptitle("one for both")
    assert claim_pages.complete(figure)
    (above, alone), *sides = pieces(figure)
    assert alone and [alone for _, alone in sides] == [False, False]
    (left, right) = (box for box, _ in sides)
    assert left[0] == 0 and left[2] == right[0] and above[3] == left[1] == right[1]
    assert right[2:] == (72 * figure.get_figwidth(), 72 * figure.get_figheight())
    assert axes[1].get_ylabel() == "height"
    figure, axes = subplots(1, 2)  # nothing is shared
    assert len(pieces(figure)) == 2
    figure, axes = subplots(1, 2, sharey=True)
    axes[0].barh(["a name that is long", "b"], [1, 2])
    assert not claim_pages.complete(figure)
    shown = claim_pages.image("A", [True, False, False], "what was seen")
    assert shown.count(".svg") == 3 and "A-2.svg\n:alt: what was seen (part 3)" in shown
    assert ":class: dark-light wide" in claim_pages.image("A", [None], "what was seen")
