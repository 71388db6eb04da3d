"""Explorers that turn in the browser: their numbers are Python's, and they turn without a kernel,
on a page and on a phone."""

import json
import shutil
from base64 import b64decode

import numpy as np
import pytest
import torch
from browser import DRAWN, chromium, needs_chromium
from common import cells_in, outputs, run

from vit_theory import explore
from vit_theory.association import Partition, reduced_descent, sort_by_set
from vit_theory.convolution import conv_to_attention
from vit_theory.convolution.kernels import KNOWN_KERNELS
from vit_theory.explore.association import association_frames
from vit_theory.explore.panel import plain_script, static_text
from vit_theory.explore.selection import STEPS, borders, selection_frames
from vit_theory.explore.vit import (
    SHARES,
    atlas_of,
    look_into,
    shares_of_maps,
    what_leads,
)
from vit_theory.models import subject_of


def computed(tmp_path, name, expression):
    """What an expression of a module is worth, in node."""
    if shutil.which("node") is None:
        pytest.skip("no node on this machine")
    script = tmp_path / f"{name}.mjs"
    text = "".join(static_text(f"{module}.js") for module in ("panel", name))
    script.write_text(f"{text}\nconsole.log(JSON.stringify({expression}));", encoding="utf-8")
    return json.loads(run("node", script))


ROWS = [[1.0, -0.5, 0.25, 2, 0], [0, 1, 0, -1, 3], [0.5, 0, 0, 0, 1]]
STATES = [
    {"kernel": "Sobel", "patch": 4, "scale": None, "removed": [], "border": "zeros"},
    {"kernel": "emboss", "patch": 2, "scale": 3.0, "removed": [0, 4], "border": "zeros"},
    {"kernel": "Gaussian blur", "patch": 8, "scale": 1.5, "removed": [], "border": "circular"},
    {"kernel": ROWS, "patch": 2, "scale": None, "removed": [1], "border": "circular"},
    {"kernel": [[1.0, 0, -1]], "patch": 16, "scale": 6.0, "removed": [], "border": "zeros"},
    {"kernel": [[1.0] * 7] * 7, "patch": 2, "scale": 2.0, "removed": [24], "border": "zeros"},
]


@pytest.fixture
def image():
    pixels = b64decode(json.loads(static_text("pictures.json"))["flower"])
    return torch.tensor(list(pixels)).double().reshape(1, 1, 32, 32) / 255


def test_convolution_has_the_numbers_of_python(tmp_path, image):
    """Convolution and attention are those of torch.nn.Conv2d and conv_to_attention, heads in the
    same order."""
    cases = json.dumps([[state, image.flatten().tolist()] for state in STATES])
    values = (
        "({ heads, convolution, attention }) => [heads.map(({ dy, dx }) => [dy, "
        "dx]), [...convolution], [...attention]]"
    )
    answers = computed(
        tmp_path,
        "convolution",
        f"{cases}.map(([state, x]) => ({values})(compute(state, Float64Array.from(x))))",
    )
    for state, (offsets, convolution, attention) in zip(STATES, answers, strict=True):
        kernel = state["kernel"]
        weight = torch.tensor(
            KNOWN_KERNELS[kernel] if isinstance(kernel, str) else kernel, dtype=torch.float64
        )[None, None]
        half = [size // 2 for size in weight.shape[2:]]
        mode = {
            "padding": half,
            "padding_mode": state["border"],
            "bias": False,
            "dtype": torch.float64,
        }
        conv = torch.nn.Conv2d(1, 1, weight.shape[2:], **mode).requires_grad_(False)
        conv.weight.copy_(weight)
        layer = conv_to_attention(conv, 32, state["patch"], state["scale"]).requires_grad_(False)
        assert [tuple(offset) for offset in offsets] == list(layer.offsets), state
        layer.W_O[state["removed"]] = 0
        for shown, expected in ((convolution, conv(image)), (attention, layer.convolve(image))):
            torch.testing.assert_close(
                torch.tensor(shown, dtype=torch.float64), expected.flatten(), rtol=0, atol=1e-12
            )


def test_push_is_the_population_descent(tmp_path):
    """The panel of essay B is `reduced_descent`, to rounding; without a diagonal nothing moves.

    That rest is unstable: 200 steps enlarge a rounding error of 1e-15 to 5e-6 in the logits, so
    that at kappa = 0 the two may lie as far apart as the path from kappa = 1e-15 comes.
    """
    options = {"alpha": 0.05, "steps": 200, "lr_v": 1e-3, "lr_A": 24.0}

    def descent(kappa):
        path = reduced_descent(16, 4, 0.4, kappa=kappa, **options).isel(step=-1)
        return {name: float(path[name]) for name in ("alpha", "gamma", "rho")}

    ends = computed(tmp_path, "push", "[-0.5, 0, 1].map((kappa) => descend(kappa).at(-1))")
    rounded = descent(1e-15)
    assert 1e-6 < rounded["gamma"] < 1e-5
    for kappa, end in zip((-0.5, 0.0, 1.0), ends, strict=True):
        for name, there in descent(kappa).items():
            far = 1e-9 if kappa or name == "alpha" else abs(rounded[name])
            assert end[name] == pytest.approx(there, abs=far), (kappa, name)
    assert abs(ends[1]["b"]) < 1e-9 and ends[2]["b"] > 1e-3 and ends[0]["b"] < -1e-3


def test_kernels_have_the_same_names_and_numbers(tmp_path):
    assert computed(tmp_path, "convolution", "KERNELS") == KNOWN_KERNELS


def test_selection_has_the_numbers_of_python(tmp_path):
    """The module shows what training gives, error and mass to four digits, attention and margins to
    1 in 255; and the ledger's borders."""
    committed = borders()
    for arm, line in json.loads(static_text("selection.json"))["borders"].items():
        np.testing.assert_allclose(line, np.transpose(committed[arm]), rtol=1e-3)
    state = {"relevant": 2, "samples": 16, "rate": 5, "step": STEPS[-1]}
    module = computed(
        tmp_path, "selection", f"compute({json.dumps(state)}, {static_text('selection.json')})"
    )
    for step, frame in zip(range(len(STEPS)), selection_frames(2, 16, 5.0), strict=False):
        for name in ("error", "mass"):
            # other processors round otherwise
            assert abs(module[name][step] - frame[name]) < 0.011, (
                name,
                step,
            )
    for name in ("attention", "margins"):
        assert max(abs(frame[name] - module[name])) < 0.02, name
    assert module["frame"] == len(STEPS) - 1


def matrix(values):
    return torch.tensor(values, dtype=torch.float64).reshape(16, 16)


def test_association_has_the_numbers_of_python(tmp_path):
    """The module shows what training gives; with other sets the same logits stand in another
    order."""
    rows = [[0, 5, 10, 15], [1, 2, 3, 4], [6, 7, 8, 9], [11, 12, 13, 14]]
    states = [
        {"partition": partition, "q": 0.2, "sigma_A": 0.5, "step": 40}
        for partition in ("blocks", "random", rows)
    ]
    expression = (
        f"{json.dumps(states)}.map((state) => compute(state, {static_text('association.json')}))"
    )
    blocks, drawn, of_rows = computed(tmp_path, "association", expression)
    *_, frame = (frame for _, frame in zip(range(6), association_frames(0.2, 0.5), strict=False))
    for name in ("gamma", "rho", "drop", "error"):
        assert abs(blocks[name][5] - frame[name]) < 0.011, name  # other processors round otherwise
    off = ~torch.eye(16, dtype=torch.bool)
    for module in (blocks, drawn, of_rows):
        # the diagonal is no number, null in JSON
        shown = matrix([value or 0.0 for value in module["sorted"]])
        plain = matrix([value or 0.0 for value in module["plain"]])
        assert (shown - torch.from_numpy(frame["logits"]))[off].abs().max() < 0.02
        labels = np.array(module["labels"])
        sets = [np.flatnonzero(labels == number).tolist() for number in range(4)]
        torch.testing.assert_close(sort_by_set(plain, Partition(sets)), shown)
    assert [of_rows["labels"][patch] for patch in (0, 5, 1, 14)] == [0, 0, 1, 3]
    assert drawn["labels"] == Partition.random(16, 4, seed=0).label.tolist()


def test_vit_has_the_numbers_of_python(tmp_path):
    """The module shows what `probe` measures of the model that ships: weights to 1 in 200,
    measurements to three digits."""
    state = {"image": 3, "layer": 1, "head": 2, "query": 9, "keep": 0.0625}
    module = computed(tmp_path, "vit", f"compute({json.dumps(state)}, {static_text('vit.json')})")
    subject = subject_of(None, None)
    names = subject.names
    measured = look_into(subject, 3)
    order, counts, said = subject.answers_with_fewer(SHARES)
    # other processors round otherwise
    assert abs(measured["attention"][1, 2, 9] - module["look"]).max() < 0.011
    assert abs(measured["attention"][:, :, 9] - module["maps"]).max() < 0.011
    atlas = atlas_of(subject)
    for name, values in (measured["numbers"] | shares_of_maps(atlas, (6, 4))).items():
        assert abs(values - module[name]).max() < 0.011, name
    assert (
        module["kept"] == order[3, : counts[SHARES.index(0.0625)]].tolist()
        and len(module["kept"]) == 4
    )
    assert module["answer"] == names[int(said[SHARES.index(0.0625), 3])]
    stored, live = json.loads(static_text("vit.json"))["leads"], what_leads(atlas)
    shares = [np.array(data.pop("shares")) for data in (stored, live)]
    assert stored == live and abs(shares[0] - shares[1]).max() < 0.011


PAGES = [
    ("explore/02_selection", "selection"),
    ("explore/03_association", "association"),
    ("explore/04_convolution", "convolution"),
    ("explore/05_vit", "vit"),
    ("selection/index", "balance"),
    ("selection/index", "selection"),
    ("association/index", "push"),
    ("convolution/index", "convolution"),
]


@pytest.mark.parametrize(("notebook", "name"), PAGES)
def test_the_stored_pages_hold_the_present_module(notebook, name):
    """What the site shows is what the package has."""
    held = [text for cell in cells_in(f"{notebook}.ipynb") for text in outputs(cell, "text/html")]
    assert any(plain_script(name) in text for text in held), (
        f"stale: python tools/notebooks.py panels nbs/{notebook}.ipynb"
    )


@pytest.fixture
def opened(tmp_path):
    """Open the HTML of an explorer, as the site holds it, without a kernel and without a server."""
    with chromium() as browser:

        def open_page(widget, width=1400, query="", **options):
            html = widget  # as a notebook stores it
            if not isinstance(widget, str):
                html = widget._repr_mimebundle_()[0]["text/html"]
            path = tmp_path / "page.html"
            path.write_text(f"<!doctype html><meta charset=utf-8>{html}", encoding="utf-8")
            page = browser.new_page(viewport={"width": width, "height": 900}, **options)
            page.set_default_timeout(20_000)
            page.on("pageerror", lambda error: pytest.fail(str(error)))
            page.goto(path.as_uri() + query)
            page.wait_for_selector(".turn [role=status]")
            return page

        yield open_page


# essay -> settings of its panels
PANELS = {
    "selection": ["alpha", "rate"],
    "association": ["kappa"],
    "convolution": ["removed", "scale"],
}


@needs_chromium
@pytest.mark.parametrize("chapter", PANELS)
def test_panels_inside_an_essay_turn(opened, chapter):
    """As they are stored: their one setting changes words and picture."""
    cells = cells_in(f"{chapter}/index.ipynb")
    held = [text for cell in cells for text in outputs(cell, "text/html") if 'id="turn-' in text]
    for html, setting in zip(held, PANELS[chapter], strict=True):
        assert f'{setting}"></div>' in html
        panel = opened(html).locator(".turn")
        said = panel.locator("[role=status]").first
        words = said.inner_text()
        picture = panel.evaluate(DRAWN)
        slider = panel.locator(".turn-controls input[type=range]")
        if slider.count():
            slider.press("End")
            slider.press("ArrowLeft")
        else:
            panel.get_by_role("button", name="head").first.click()
        assert said.inner_text() != words and panel.evaluate(DRAWN) != picture, setting


def assert_its_address_is_enough(page, opened, explorer):
    """On a phone too, where nothing is wider than the window -> that page."""
    again = opened(explorer, width=390, query="?" + page.url.partition("?")[2])
    said, said_again = (
        tab.locator(".turn [role=status]").first.inner_text() for tab in (page, again)
    )
    assert said == said_again and again.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )
    return again


# What Sphinx's basic style sheet says of its own class `body`, and the theme of `figure`: neither
# may reach into a panel.
SPHINX = (
    "div.body { min-width: 360px; max-width: 800px } figure { margin: "
    "3rem } .figure { width: 900px }"
)
WIDER = """() => {
    const panel = document.querySelector(".turn").getBoundingClientRect();
    const shown = [...document.querySelectorAll(".turn *")]
        .filter((element) => element.checkVisibility() && element.tagName !== "OPTION");
    const outside = shown.filter((element) => {
        const { left, right } = element.getBoundingClientRect();
        return right > panel.right + 0.5 || left < panel.left - 0.5;
    });
    return outside.map((element) => element.outerHTML.slice(0, 100));
}"""


@pytest.mark.parametrize("name", ["selection", "association", "convolution", "vit"])
@needs_chromium
def test_nothing_is_wider_than_its_panel(opened, name):
    """On a phone and on a desk, inside a page of Sphinx; on a phone the pictures stand above the
    knobs."""
    for width in (390, 1400):
        page = opened(getattr(explore, f"{name}_explorer")(), width=width)
        page.add_style_tag(content=SPHINX)
        assert page.evaluate(WIDER) == [], width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        pictures, controls = (
            page.locator(f".turn-{part}").bounding_box() for part in ("pictures", "controls")
        )
        side = "y" if width == 390 else "x"
        assert (pictures[side] < controls[side]) == (width == 390)
        page.close()


# An address is input: what a control does not have is its default.
BAD = {
    "convolution": [
        "patch=99",
        "patch=0",
        "patch=5",
        "patch=NaN",
        "kernel=[]",
        "kernel=[[1,2]]",
        "kernel=[[1],[2,3]]",
        "kernel=Sobol",
        'kernel=[["a"]]',
        "kernel=constructor",
        "removed=7",
        "removed=[99]",
        "removed=[0,0]",
        "scale=0",
        "scale=-1",
        "scale={}",
        "border=none",
        "image=moon",
        "image=toString",
        "query=64",
        "query=1.5",
        "colour=1",
    ],
    "selection": ["step=1000", "step=5", "relevant=4", "samples=[]", "rate=x", "step=null"],
    "association": [
        "step=1000",
        "q=3",
        "sigma_A=null",
        "partition=[]",
        "partition=[[1],[2],[3],[4]]",
        "partition=valueOf",
        "partition=[[0,0,1,2],[3,4,5,6],[7,8,9,10],[11,12,13,14]]",
    ],
    "vit": [
        "layer=9",
        "head=-1",
        "image=1000",
        "query=99",
        "keep=0.3",
        "measure=none",
        "model=mine",
    ],
}


@pytest.mark.parametrize("name", BAD)
@needs_chromium
def test_a_bad_address_shows_the_default(opened, name):
    explorer = getattr(explore, f"{name}_explorer")
    page = opened(explorer())
    usual = page.inner_text(".turn .said")
    for query in BAD[name]:
        page.goto(page.url.partition("?")[0] + "?" + query)
        assert page.inner_text(".turn .said") == usual, query
        assert page.inner_text(".turn code") == f"{name}_explorer()", query
        assert page.locator(".turn canvas, .turn svg").count() > 0, query


@needs_chromium
def test_of_an_address_the_good_parts_are_kept(opened):
    """Text needs no quotation marks, but may have them; removed heads are those of the kernel and
    patch of the address."""
    page = opened(
        explore.convolution_explorer(),
        query="?kernel=Laplace&patch=99&border=%22circular%22&removed=[4]&query=9",
    )
    code = page.inner_text(".turn code")
    assert code == 'convolution_explorer(kernel="Laplace", removed=[4], border="circular", query=9)'
    page.goto(page.url.partition("?")[0] + "?kernel=Laplace&removed=[5]")  # it has five heads
    assert page.inner_text(".turn code") == 'convolution_explorer(kernel="Laplace")'


def test_large_patches_with_a_finite_gap_are_quick(tmp_path):
    """A state is computed in under 100 ms, also where a block has 65,536 entries."""
    state = {"kernel": "Gaussian blur", "patch": 16, "scale": 3, "removed": [], "border": "zeros"}
    x = "new Float64Array(1024).fill(0.5)"
    timed = f"""(() => {{
        const times = Array.from({{ length: 5 }}, () => {{
            const begin = performance.now();
            compute({json.dumps(state)}, {x});
            return performance.now() - begin;
        }});
        return Math.min(...times);
    }})()"""
    assert computed(tmp_path, "convolution", timed) < 100


# Contrast of the words of a field with its color, by WCAG.
CONTRAST = """(one) => {
    const light = (color) => {
        const linear = (value) =>
            value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const [red, green, blue] = color.match(/\\d+/g).map((part) => linear(part / 255));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const shown = [getComputedStyle(one).backgroundColor, getComputedStyle(one.firstChild).color];
    const [low, high] = shown.map(light).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
@needs_chromium
def test_heads_are_colored_by_what_leads_them(opened, width, scheme):
    """A field with a word on every head, a legend that counts, names for those who only hear."""
    explorer = explore.vit_explorer()
    leads = json.loads(json.dumps(explorer.data["leads"]))
    leads["names"][0] = ["sink", "convolution", "position", "flat"]
    leads["shares"][0] = [0.81, 0.72, 0.63, None]
    explorer.data = explorer.data | {"leads": leads}
    page = opened(explorer, width=width, color_scheme=scheme)
    if scheme == "dark":
        page.add_style_tag(content="body { background: #111; color: #eee }")
    fields = page.locator(".turn button .lead")
    assert fields.all_inner_texts() == sum(leads["names"], [])
    for number, name in enumerate(sum(leads["names"], [])):
        color = fields.nth(number).evaluate("(one) => getComputedStyle(one).backgroundColor")
        numbers = [int(leads["colors"][name][at : at + 2], 16) for at in (1, 3, 5)]
        assert color == f"rgb({', '.join(map(str, numbers))})"
    for number in range(5):
        assert fields.nth(number).evaluate(CONTRAST) > 4.5
        assert fields.nth(number).evaluate("(one) => one.scrollWidth <= one.clientWidth")
    legend = page.get_by_role("list", name="what leads how many heads, over 16 images")
    assert legend.get_by_role("listitem").all_inner_texts() == [
        "sink: 1",
        "convolution: 1",
        "position: 1",
        "content: 20",
        "flat: 1",
    ]
    head = page.get_by_role("button", name="layer 0, head 2: entropy, nats 3.86, position leads")
    head.focus()
    page.keyboard.press("Enter")
    assert "head 2 of layer 0, led by position, looks" in page.inner_text(".turn .said")
    flat = page.get_by_role("button", name="layer 0, head 3")
    assert flat.get_attribute("aria-label").endswith("reads all alike")
    assert page.evaluate(WIDER) == []


@needs_chromium
def test_heads_stand_at_their_offsets(opened):
    """Laplace has five heads, in a cross; the four corners of the three by three are empty."""
    page = opened(explore.convolution_explorer(kernel="Laplace"))
    places = page.evaluate("""() => {
        const heads = [...document.querySelectorAll(".turn-aside button")];
        const boxes = heads.map((head) => head.getBoundingClientRect());
        const ranks = (side) => {
            const edges = new Set(boxes.map((box) => Math.round(box[side])));
            return [...edges].sort((a, b) => a - b);
        };
        const xs = ranks("x");
        const ys = ranks("y");
        const offset = (edges, edge) => edges.indexOf(Math.round(edge)) - 1;
        return boxes.map((box) => [offset(ys, box.y), offset(xs, box.x)].join());
    }""")
    assert places == ["-1,0", "0,-1", "0,0", "0,1", "1,0"]
    assert page.locator(".turn-aside [title^='no head']").count() == 4


@needs_chromium
def test_the_asking_patch_moves_by_keyboard_and_mouse_and_is_in_the_address(opened):
    page = opened(explore.convolution_explorer())
    frame = page.get_by_role("slider", name="the patch that asks")
    assert frame.get_attribute("aria-valuetext") == "row 5, column 5"
    frame.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert frame.get_attribute("aria-valuetext") == "row 4, column 4"
    assert page.evaluate("location.search") == "?query=27"
    box = frame.bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + 2)
    assert page.evaluate("location.search") == "?query=0"
    again = assert_its_address_is_enough(page, opened, explore.convolution_explorer())
    assert (
        again.get_by_role("slider", name="the patch that asks").get_attribute("aria-valuetext")
        == "row 1, column 1"
    )


@needs_chromium
def test_the_link_to_a_state_is_copied(opened):
    page = opened(explore.convolution_explorer())
    page.get_by_label("kernel", exact=True).first.select_option("Laplace")
    page.evaluate("() => { navigator.clipboard.writeText = (text) => { window.copied = text; } }")
    page.get_by_role("button", name="Copy link").click()
    assert page.evaluate("copied").endswith("?kernel=Laplace")
    page.get_by_role("button", name="Link copied").wait_for()


@needs_chromium
def test_convolution_turns_without_a_kernel(opened):
    """Heads are clicked away, the gap is dragged, a kernel is typed and drawn; words, code, address
    follow."""
    page = opened(explore.convolution_explorer())
    said = page.locator(".turn [role=status]")
    code = page.locator(".turn code")
    assert (
        "9 of 9 heads computes this convolution" in said.inner_text()
        and code.inner_text() == "convolution_explorer()"
    )
    page.get_by_role("button", name="head at -1, -1").click()
    assert (
        "without 1 of its 9 heads misses" in said.inner_text()
        and "removed=[0]" in code.inner_text()
    )
    page.get_by_role("button", name="head at -1, -1").click()
    page.get_by_role("slider", name="logit gap M").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert (
        "a logit gap of 1 misses" in said.inner_text()
        and code.inner_text() == "convolution_explorer(scale=1)"
    )
    page.get_by_label("kernel, row 2, column 2").fill("5")
    assert "kernel=[[-1, 0, 1], [-2, 5, 2], [-1, 0, 1]]" in code.inner_text()
    page.get_by_label("kernel, row 1, column 2").hover()
    x, y = (page.get_by_label("kernel, row 1, column 2").bounding_box()[side] + 10 for side in "xy")
    page.mouse.down()
    page.mouse.move(x, y - 40, steps=4)
    page.mouse.up()
    drawn = json.loads(code.inner_text().partition("kernel=")[2].partition("], scale")[0] + "]")[0][
        1
    ]
    assert drawn > 0 and drawn % 0.25 == 0
    assert_its_address_is_enough(page, opened, explore.convolution_explorer())


@pytest.mark.slow
@needs_chromium
def test_turn_it_plays_the_convolution_explorer(opened):
    """Attention softens, heads go, and at the end all is as it was."""
    page = opened(explore.convolution_explorer())
    page.get_by_role("button", name="Turn it").click()
    for words in ("a logit gap of 2 misses", "without 8 of its 9 heads", "9 of 9 heads computes"):
        page.wait_for_function(
            f"() => document.querySelector('.turn .said').textContent.includes('{words}')"
        )
    page.get_by_role("button", name="Turn it").wait_for()
    assert page.locator(".turn code").inner_text() == "convolution_explorer()"


@needs_chromium
def test_a_finger_draws_a_kernel(opened):
    """A touch that goes up and down in a cell changes its number, and does not scroll the page."""
    page = opened(explore.convolution_explorer(), width=390, has_touch=True)
    cell = page.get_by_label("kernel, row 2, column 2")
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    scrolled = page.evaluate("scrollY")
    x = box["x"] + 10
    y = box["y"] + 10
    touch = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [y]),
        *(("touchMove", [y + move]) for move in (8, 16, 24, 32)),
        ("touchEnd", []),
    ):
        touch.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": x, "y": at} for at in points]},
        )
    assert (
        "[-2, -1, 2]" in page.locator(".turn code").inner_text()
        and page.evaluate("scrollY") == scrolled
    )


@needs_chromium
def test_vit_turns_without_a_kernel(opened):
    """Another head, another patch, fewer patches: words, code and address follow, and the address
    is enough."""
    page = opened(explore.vit_explorer(head=1))
    said = page.locator(".turn [role=status]")
    code = page.locator(".turn code")
    assert "head 1 of layer 0" in said.inner_text() and code.inner_text() == "vit_explorer(head=1)"
    page.get_by_role("button", name="layer 1, head 2").click()
    assert "head 2 of layer 1" in said.inner_text() and "layer=1, head=2" in code.inner_text()
    box = page.locator(".turn canvas").first.bounding_box()
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"])
    assert "query=7" in code.inner_text()  # the last patch of the first of eight rows
    assert (
        page.get_by_role("slider", name="patch that asks", exact=True).get_attribute(
            "aria-valuetext"
        )
        == "7"
    )
    page.get_by_role("slider", name="patches kept").focus()
    page.keyboard.press("Home")
    assert (
        "With the 4 most attended of 64 patches" in said.inner_text() and "keep=0.0625" in page.url
    )
    page.get_by_label("bar below each head").select_option("distance, patches")
    assert page.get_by_role("button", name="layer 1, head 2: distance").count() == 1
    assert page.get_by_label("folder or hub name").count() == 0  # nobody is there to read it
    assert_its_address_is_enough(page, opened, explore.vit_explorer())


@needs_chromium
def test_selection_plays_and_turns_without_a_kernel(opened):
    """It starts before training; Play goes through it, and a setting shows another run."""
    page = opened(explore.selection_explorer(), width=390)
    said = page.locator(".turn [role=status]").first
    code = page.locator(".turn code")
    assert (
        said.inner_text().startswith("Before training")
        and code.inner_text() == "selection_explorer()"
    )
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "() => document.querySelector('.turn .said').textContent.startsWith('After 50 steps')"
    )
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("slider", name="attention's learning rate").focus()
    page.keyboard.press("Home")
    assert "does not learn" in said.inner_text() and "rate=0" in code.inner_text()
    assert "rate=0" in page.url and page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )


@needs_chromium
def test_association_plays_and_two_patches_are_swapped(opened):
    """It starts trained; Play goes through training; two clicks swap two patches, and the address
    keeps the sets."""
    page = opened(explore.association_explorer())
    said = page.locator(".turn [role=status]").first
    code = page.locator(".turn code")
    assert (
        said.inner_text().startswith("After 200 steps every patch")
        and code.inner_text() == "association_explorer()"
    )
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "() => document.querySelector('.turn .said').textContent.startsWith('After 40 steps')"
    )
    page.get_by_role("button", name="Pause").click()
    for patch in (1, 1, 1, 3):  # the second click on the same patch takes the first back
        page.get_by_role("button", name=f"patch {patch},").click()
    assert "partition=[[1, 2, 4, 5], [0, 3, 6, 7]" in code.inner_text()
    again = assert_its_address_is_enough(page, opened, explore.association_explorer())
    assert again.get_by_role("button", name="patch 1, of set 2").count() == 1
