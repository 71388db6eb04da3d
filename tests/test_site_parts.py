"""What the site is made of, without building it: examples that run, links that appear with an
address, pages for machines."""

import re
import sys
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from common import ROOT, script
from IPython.core.interactiveshell import InteractiveShell

from vit_theory.figures import pieces, subplots

sys.path.append(str(ROOT / "docs"))
import claim_pages  # noqa: E402
import drawings  # noqa: E402
import finish  # noqa: E402

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


@pytest.mark.parametrize("number", [1, 2, 10, 80, len(claim_pages.CLAIMS), 1000])
def test_all_tiles_of_the_poster_are_on_it(number):
    (width, height), corners = claim_pages.places_of_tiles(number)
    assert width > 20 and height > 14 and len(set(corners)) == number
    for x, y in corners:
        assert 0 <= x and x + width <= claim_pages.POSTER[0]
        assert 0 <= y and y + height <= claim_pages.POSTER[1]
    # none lies on another
    assert all(
        abs(x - u) >= width or abs(y - v) >= height
        for number, (x, y) in enumerate(corners)
        for u, v in corners[:number]
    )


@pytest.mark.parametrize(
    ("id", "run"), [("B-images-positional", "full photographs"), ("C-theorem-5", "full")]
)
def test_a_page_of_a_claim_names_the_command_of_its_figure(id, run):
    assert claim_pages.Card(id).run == run
    drawing = SimpleNamespace(markdown=lambda *_: "")
    lines = "\n".join(claim_pages.page(id, ("label", "title", "section"), drawing)).splitlines()
    of_photographs = f"vit-theory reproduce {id} --scale full --images FOLDER/cifar10"
    assert (of_photographs in lines) == (run == "full photographs")
    assert f"vit-theory reproduce {id} --scale full" in lines


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


def test_an_explorers_page_ends_after_what_to_try():
    tries = '<section id="things-to-try"><h2>Try</h2></section>'
    code = '<section id="code"><h2>Code</h2></section>'
    page = f"<article><section>{tries}{code}</section></article>"
    assert finish.below_a_fold(page).index("<details") == page.index('<section id="code">')


def test_the_pictures_of_the_readme_take_the_ink_of_a_page():
    """No white ground and no black letters are left, in none of them."""
    pictures = sorted((ROOT / "nbs" / "pictures").glob("*.svg"))
    assert len(pictures) >= 5
    for path in pictures:
        text = build.inked(path.read_text(encoding="utf-8"))
        assert "#ffffff" not in text and "#000000" not in text, path.name
        assert text.count("prefers-color-scheme") in (1, 2) and "currentColor" in text, path.name
        assert path.stem == "patch" or drawings.WORDS in text, path.name


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
    assert drawings.complete(figure)
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
    assert not drawings.complete(figure)


def two_panels(shared=False, title=None):
    """A map with a color bar beside a curve, or two curves on one axis of long names."""
    figure, (left, right) = subplots(1, 2, sharey=shared)
    if shared:
        left.barh(["a name that is long", "b"], [1, 2])
        right.barh([0, 1], [2, 1])
    else:
        figure.colorbar(left.imshow(np.arange(64).reshape(8, 8)), ax=left)
        right.plot([2, 1])
    if title:
        figure.suptitle(title)
    return figure


def files(drawing, folder):
    """Endings of the files of a drawing."""
    drawing.write(folder, "a")
    return sorted(path.stem.removeprefix("a") for path in folder.glob("*.svg"))


def test_panels_side_by_side_are_pieces(tmp_path):
    """Each file is a window on the same drawing; all of them together have its size."""
    drawing = drawings.drawn(two_panels)
    assert files(drawing, tmp_path) == ["", "-0", "-1"]
    sizes = [
        [float(side) for side in drawings.SIZE.search(path.read_text(encoding="utf-8")).groups()]
        for path in sorted(tmp_path.glob("a*.svg"))
    ]
    (first, height), (second, _), (whole, same) = sorted(sizes)
    assert first + second == pytest.approx(whole, abs=0.2) and height == same
    shown = drawing.markdown("/a", "what is seen")
    assert shown.count("```{image}") == 2 and "a-1.svg\n:alt: what is seen (part 2)" in shown
    both = drawings.drawn(lambda: two_panels(title="one title that goes across both panels"))
    assert [own_line for _, own_line in both.parts] == [True, False, False]
    assert both.markdown("/a", "").count("across") == 1


def test_a_panel_brings_the_axis_that_it_shares(tmp_path):
    """Where long names are not said twice: the first panel has them, the second a picture of the
    axis before it."""
    drawing = drawings.drawn(lambda: two_panels(shared=True))
    assert files(drawing, tmp_path) == ["", "-0", "-1", "-axis"]
    assert 60 < drawing.axis.right < drawing.parts[0].box.right / 2
    first, second = drawing.markdown("/a", "bars").split('<div class="sharing"')
    assert "a-0.svg" in first and second.index("a-axis.svg") < second.index("a-1.svg")


def test_a_figure_of_one_panel_is_narrow_on_a_phone(tmp_path):
    def wide():
        figure, ax = subplots(width=6.4)
        ax.plot([1, 2], label="a line")
        ax.legend()
        return figure

    drawing = drawings.drawn(wide)
    assert files(drawing, tmp_path) == ["", "-narrow"]
    width = float(drawings.SIZE.search(drawing.narrow)[1])
    assert drawings.POINT * width <= 360
    assert "roomy" in drawing.markdown("/a", "a line")
    small = drawings.drawn(lambda: subplots(width=3)[0])
    assert files(small, tmp_path / "small") == [""] and "frame" not in small.markdown("/a", "x")


def test_a_wall_of_panels_scrolls_on_a_phone():
    """It is read as a whole: letters keep their size, in a frame that the keyboard reaches."""
    drawing = drawings.drawn(lambda: subplots(1, 6, width=1)[0])
    shown = drawing.markdown("/a", "six")
    assert len(drawing.parts) == 1 and 'class="frame"' in shown and 'tabindex="0"' in shown


def test_in_the_dark_ink_is_light_and_a_map_keeps_its_colors():
    figure = two_panels()
    figure.axes[0].text(3, 3, "white words", color="white", bbox={"facecolor": "black"})
    drawing = drawings.drawn(lambda: figure)
    assert "#fffffe" in drawing.svg and "#000001" in drawing.svg
    assert "#000000" not in drawing.svg and "#ffffff" not in drawing.svg
    assert "data:image/png" in drawing.svg


def test_a_stored_drawing_is_what_the_page_shows(tmp_path):
    """Packed and unpacked it writes the same files; a cell that shows it says where they are."""
    for shared in (False, True):
        drawing = drawings.drawn(lambda shared=shared: two_panels(shared=shared))
        assert drawings.unpacked(drawings.packed(drawing)) == drawing
    cell = nbformat.v4.new_code_cell("figure")
    data = {"image/png": "", drawings.KIND: drawings.packed(drawing)}
    cell.outputs = [nbformat.v4.new_output("display_data", data)]
    build.with_drawings(cell, tmp_path / "_drawings", "page-3", "bars")
    shown = cell.outputs[0]["data"]["text/markdown"]
    addresses = re.findall(r"\{image\} (\S+)", shown)
    assert addresses and all((tmp_path / name.lstrip("/")).is_file() for name in addresses)


def test_a_figure_brings_its_drawing_where_a_page_is_stored():
    """And is the same figure afterwards; what JupyterLab shows by itself has none."""
    shell = InteractiveShell()
    figure = two_panels(shared=True)
    plain, _ = shell.display_formatter.format(figure)
    drawings.load_ipython_extension(shell)
    before = figure.axes[1].get_ylabel(), figure.get_size_inches().tolist()
    brought, _ = shell.display_formatter.format(figure)
    assert drawings.KIND not in plain
    assert drawings.unpacked(brought[drawings.KIND]).axis
    assert (figure.axes[1].get_ylabel(), figure.get_size_inches().tolist()) == before
