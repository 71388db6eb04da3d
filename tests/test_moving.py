"""Moving pictures: a page of their own plays, pauses, answers the keyboard, and those of the
chapters are small."""

import numpy as np
import pytest
from browser import chromium, needs_chromium
from common import cells_in, outputs

from vit_theory.figures import Moving, subplots


def frame(place):
    figure, ax = subplots(width=2, height=1.5)
    ax.plot([0, 1], [0, place])
    return figure, f"step {place} </script>"


@pytest.mark.parametrize("chapter", ["selection", "association", "convolution", "images"])
def test_each_chapter_has_one_of_at_most_a_megabyte(chapter):
    shown = [
        text for cell in cells_in(f"{chapter}/index.ipynb") for text in outputs(cell, "text/html")
    ]
    moving = [text for text in shown if '<figure class="moving"' in text]
    assert len(moving) == 1 and len(moving[0]) <= 1_000_000


def two(step):
    """A map, and a curve."""
    figure, (left, right) = subplots(1, 2)
    left.imshow(np.arange(64).reshape(8, 8) % (step + 7))
    left.set(xticks=[], yticks=[])
    right.plot([1, 2, step])
    right.set(ylabel="height", ylim=(0, 4))
    return figure, f"step {step}"


# Each layer of each piece: its place, its frame, and whether it is seen.
LAYERS = """() => [...document.querySelectorAll(".piece")].map((piece) => {
    const {left, top, right, width, height} = piece.getBoundingClientRect();
    const layers = [...piece.querySelectorAll("img")].map((image) => {
        const own = image.getBoundingClientRect();
        return {src: image.src, alt: image.alt, seen: image.checkVisibility(),
            cut: image.style.clipPath, whole: own.width, kind: image.className};
    });
    return {left, top, right, width, height, layers};
})"""


@needs_chromium
def test_panels_stand_below_each_other_where_the_page_is_narrow(tmp_path):
    """Each is a window on the frame; a second layer, for the dark, is cut to the map, and both
    show each frame."""
    film = Moving(map(two, range(1, 4)), "A map, and a curve.")
    assert len(film.pieces) == 2 and len(film.kept) == 1
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html>{film._repr_html_()}", encoding="utf-8")
    with chromium() as browser:
        for width in (1400, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.goto(page.as_uri())
            first, second = tab.evaluate(LAYERS)
            assert (second["top"] >= first["top"] + first["height"]) == (width == 390)
            assert (second["left"] >= first["right"] - 1) == (width == 1400)
            assert max(first["right"], second["right"]) <= width
            for piece, alt in ((first, film.says), (second, f"{film.says} (part 2)")):
                below, kept = piece["layers"]
                assert below["alt"] == alt and below["seen"] and abs(below["whole"] - 640) < 1
                assert kept["kind"] == "kept" and not kept["seen"] and kept["src"] == below["src"]
                across = [float(side.split("%")[0]) for side in kept["cut"].split(", ")[1:]]
                assert 35 < max(across) < 52
            tab.focus("input")
            tab.keyboard.press("End")
            sources = {layer["src"] for piece in tab.evaluate(LAYERS) for layer in piece["layers"]}
            assert sources == {film.frames[-1][0]}
            assert tab.inner_text("output") == "step 3"


def test_a_panel_that_moves_leaves_the_picture_whole():
    def frame(step):
        figure, (left, right) = subplots(1, 2, gridspec_kw={"width_ratios": [1, step]})
        return figure, f"step {step}"

    assert Moving(map(frame, (1, 3)), "Two panels.").pieces == [[0, 0, 1, 1]]
    assert len(Moving(map(frame, (1, 1)), "Two panels.").pieces) == 2


@needs_chromium
def test_plays_and_pauses_and_answers_the_keyboard(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html>"
        + Moving(map(frame, range(9)), "A line turns & <b>turns</b>.")._repr_html_(),
        encoding="utf-8",
    )
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 390, "height": 600})
        errors = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(page.as_uri())
        place = lambda: int(tab.locator("input").input_value())  # noqa: E731
        assert (
            place() == 0  # the end is not given away
            and tab.inner_text("output") == "step 0 </script>"
            and tab.inner_text("button") == "Play"
        )
        assert tab.get_attribute("img", "alt") == "A line turns & <b>turns</b>."
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.focus("button")
        tab.keyboard.press("Space")
        second = tab.get_attribute("img", "src")
        tab.wait_for_function("document.querySelector('output').value.startsWith('step 3')")
        assert tab.inner_text("button") == "Pause" and tab.get_attribute("img", "src") != second
        tab.keyboard.press("Space")
        stopped = place()
        tab.wait_for_timeout(500)
        assert place() == stopped and tab.inner_text("button") == "Play"
        tab.focus("input")
        tab.keyboard.press("ArrowRight")
        assert (
            place() == stopped + 1
            and tab.get_attribute("input", "aria-valuetext") == f"step {stopped + 1} </script>"
        )
        tab.keyboard.press("Home")
        assert place() == 0
        tab.click("button")
        # it ends by itself
        tab.wait_for_function("document.querySelector('button').textContent === 'Play'")
        assert place() == 8 and not errors
        calm = browser.new_page(reduced_motion="reduce")
        calm.goto(page.as_uri())
        calm.click("text=Next")
        calm.wait_for_timeout(500)
        assert calm.locator("input").input_value() == "1"
        bare = browser.new_page(java_script_enabled=False)
        bare.goto(page.as_uri())
        assert (
            bare.locator("img").is_visible()
            and bare.locator("button, input, output, figcaption").count() == 0
        )
