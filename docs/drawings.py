"""A figure as the site shows it: transparent SVG in the page's ink, its panels apart where a phone
has one below the other, and a narrow one where a phone needs it.

Loaded into the kernel that stores a page (`tools/notebooks.py run`), it leaves such a drawing
beside the picture of each figure; JupyterLab shows the picture."""

import copy
import json
import lzma
import re
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from pathlib import Path

from narrow import FEW, narrowed, panels_of, suits

import vit_theory
from vit_theory.figures import Box, Piece, box_of, is_picture, pieces, style, to_svg

KIND = "application/vnd.vit-theory.figure"  # of a stored drawing
POINT = 100 / 72  # pixels: an inch of a figure has a hundred
PHONE = 342  # pixels: the text column of a phone
LEAST = 0.96  # of its own size a figure with letters has there

# Blue words are lighter in the dark, to be read; lines and areas are as they are.
WORDS = """<style>@media (prefers-color-scheme: dark) {
[id^="text_"] [style*="#0072b2"] { fill: #3d9bdc !important; }
}</style>"""
# and the ground of a figure that is opened by itself
REPORT = Path(vit_theory.__file__).parent / "ledger" / "report"
STYLES = f"<style>{(REPORT / 'figure.css').read_text(encoding='utf-8')}</style>{WORDS}"
SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt" viewBox="[^"]*"')


def as_svg(figure):
    """A figure as SVG, with its colors in the dark."""
    return to_svg(figure).replace("<defs>", f"{STYLES}<defs>", 1)


def window(svg, box, style=""):
    """The part of a drawn figure inside a box, (left, top, right, bottom) in points."""
    left, top, right, bottom = box
    size = f'width="{right - left:.1f}pt" height="{bottom - top:.1f}pt" '
    size += f'viewBox="{left:.1f} {top:.1f} {right - left:.1f} {bottom - top:.1f}"'
    return SIZE.sub(size + style, svg, count=1)


def complete(figure):
    """Each panel says its own axis, also one that shares it: a phone shows it by itself. Whether
    all do: long words are not said twice where there is room."""
    for ax in figure.axes:
        shared = ax.get_shared_y_axes().get_siblings(ax)  # itself among them
        first, *others = [one for one in figure.axes if one in shared]
        labels = [label.get_text() for label in first.get_yticklabels()]
        if others and any(len(label) > 15 and "$" not in label for label in labels):
            return False
        if others and first.yaxis.get_tick_params().get("labelleft"):
            ax.tick_params(labelleft=True)
            ax.set_ylabel(ax.get_ylabel() or first.get_ylabel())
    return True


def shares_axis(axes):
    """Whether two of these axes have their numbers in common."""
    return any(ax.get_shared_y_axes().get_siblings(ax)[1:] for ax in axes)


def parts_of(figure):
    """The pieces of a figure. What is read as a whole has one: a row of maps on one axis, a wall
    of small panels."""
    parts = pieces(figure)
    panels = panels_of(figure)
    small = any(part.box.right - part.box.left < 72 for part in parts if not part.own_line)
    maps = shares_axis(panels) and all(map(is_picture, panels))
    if len(panels) > FEW or small or maps:
        width, height = (72 * float(side) for side in figure.get_size_inches())
        return [Piece(Box(0.0, 0.0, width, height), own_line=False)]
    return parts


def raw(text):
    return f"```{{raw}} html\n{text}\n```\n"


def image(address, box, alt, kind=""):
    """A part of a figure as Markdown."""
    left, top, right, bottom = box
    return (
        f"```{{image}} {address}.svg\n:alt: {alt}\n"
        f":class: dark-light no-scaled-link {kind}\n"
        f":width: {round(POINT * (right - left))}\n:height: {round(POINT * (bottom - top))}\n```\n"
    )


def framed(shown, points):
    """What a phone is too narrow for, in a frame that scrolls there, by keyboard too."""
    width = LEAST * POINT * points
    if width <= PHONE:
        return shown
    start = f'<div class="frame" style="--own: {width:.0f}px" tabindex="0" role="region" '
    return raw(f'{start}aria-label="figure, wide">') + shown + raw("</div>")


@dataclass
class Drawing:
    """A drawn figure and how it falls apart."""

    svg: str
    parts: list[Piece]
    axis: Box | None = None  # that all panels share, where it is not said at each of them
    inset: tuple[float, float] = (0.0, 0.0)  # of the axis: the title above, the numbers below
    narrow: str = ""  # for phones, where the figure is wide and does not fall apart

    def write(self, folder, name):
        """Its files."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"": self.svg}
        if len(self.parts) > 1:
            for number, (box, _) in enumerate(self.parts):
                texts[f"-{number}"] = window(self.svg, box)
        if self.axis:
            top, bottom = self.inset
            style = f' style="clip-path: inset({top:.1f}px 0 {bottom:.1f}px 0)"'
            texts["-axis"] = window(self.svg, self.axis, style)
        if self.narrow:
            texts["-narrow"] = self.narrow
        for ending, text in texts.items():
            (folder / f"{name}{ending}.svg").write_text(text, encoding="utf-8")

    def markdown(self, address, alt):
        """What a page says to show it: panels side by side, which a phone has one below the other,
        each with the axis that they share."""
        whole = self.parts[0].box
        if self.narrow:
            width, height = map(float, SIZE.search(self.narrow).groups())
            wide = image(address, whole, alt, "roomy")
            small = image(f"{address}-narrow", (0, 0, width, height), alt, "narrow")
            return f":::::{{container}} panels\n{wide}\n{small}\n:::::\n"
        if len(self.parts) == 1:
            return framed(image(address, whole, alt), whole.right)
        lines = [":::::{container} panels\n"]
        first = [part.own_line for part in self.parts].index(False)
        for number, (box, own_line) in enumerate(self.parts):
            words = alt if number == 0 else f"{alt} (part {number + 1})"
            shown = image(f"{address}-{number}", box, words)
            width = box.right - box.left
            if self.axis and not own_line and number > first:
                shown = self.with_axis(address, shown, width)
                width += self.axis.right
            shown = framed(shown, width)
            lines.append(f"::::{{container}} across\n{shown}::::\n" if own_line else shown)
        return "\n".join([*lines, ":::::\n"])

    def with_axis(self, address, panel, width):
        """A panel without numbers of its own: where it stands by itself, as on a phone, the axis
        is shown with it."""
        axis = image(f"{address}-axis", self.axis, "the axis", "axis")
        sizes = f"--axis: {POINT * self.axis.right:.0f}; --panel: {POINT * width:.0f}"
        return raw(f'<div class="sharing" style="{sizes}">') + axis + panel + raw("</div>")


def drawn(make):
    """The drawing of a figure; `make` gives it anew at each call, since drawing it changes it."""
    with style():  # how many ticks an axis has depends on it
        return drawn_in_style(make)


def drawn_in_style(make):
    figure = make()
    shared = False  # an axis that is said once
    if shares_axis(figure.axes):
        most = len(parts_of(figure))
        shared = not complete(figure) or len(parts_of(figure)) < most

    def again():
        figure = make()
        if not shared:
            complete(figure)
        return figure

    figure = again()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # what follows finds all of it where it stands
    drawing = Drawing(as_svg(figure), parts_of(figure))
    if suits(figure):
        drawing.narrow = as_svg(narrowed(again()))
    elif shared and len(drawing.parts) > 1:
        panel = next(box for box, own_line in drawing.parts if not own_line)
        inside = box_of(figure.axes[0], figure, tight=False)
        drawing.axis = Box(0.0, panel.top, inside.left + 1.5, panel.bottom)
        drawing.inset = (inside.top - panel.top - 6, panel.bottom - inside.bottom - 6)
    return drawing


def packed(drawing):
    """A drawing as a notebook stores it."""
    return b64encode(lzma.compress(json.dumps(asdict(drawing)).encode())).decode()


def unpacked(stored):
    """The drawing that a notebook has stored."""
    drawing = Drawing(**json.loads(lzma.decompress(b64decode(stored))))
    drawing.parts = [Piece(Box(*box), own_line) for box, own_line in drawing.parts]
    drawing.axis = Box(*drawing.axis) if drawing.axis else None
    drawing.inset = tuple(drawing.inset)
    return drawing


def load_ipython_extension(shell):
    """Each figure that a cell shows brings its drawing."""

    def drawing(figure):
        return {KIND: packed(drawn(lambda: copy.deepcopy(figure)))}

    shell.display_formatter.mimebundle_formatter.for_type_by_name(
        "matplotlib.figure", "Figure", drawing
    )
