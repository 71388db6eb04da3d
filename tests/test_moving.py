"""Moving pictures: a page of their own plays, pauses, answers the keyboard, and those of the
chapters are small."""

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
    found = [
        text for cell in cells_in(f"{chapter}/index.ipynb") for text in outputs(cell, "text/html")
    ]
    moving = [text for text in found if '<figure class="moving"' in text]
    assert len(moving) == 1 and len(moving[0]) <= 1_000_000


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
        tab.wait_for_function(
            "document.querySelector('button').textContent === 'Play'"
        )  # it ends by itself
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
