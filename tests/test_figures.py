"""The figures of all claims, drawn from the committed measurements: nothing collides, is cut off,
or is too much at once."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from vit_theory.figures import subplots
from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.evidence import committed, measured

CLAIMS = {claim.id: claim for claim in load_claims()}


def ticks(axis):
    """The labels of an axis that are drawn, with their boxes."""
    low, high = sorted(axis.get_view_interval())
    shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    labels = [
        label
        for tick in shown
        for label in (tick.label1, tick.label2)
        if label.get_visible() and label.get_text()
    ]
    return [(label.get_text(), label) for label in labels]


def overlap(one, two, slack=1.0):
    """Whether two boxes share more than a border of `slack` pixels."""
    shared = Bbox.intersection(one, two)
    return shared is not None and shared.width > slack and shared.height > slack


def points(ax):
    """Where the data of lines and scatters lie, in pixels, curves filled in between their
    points."""
    for line in ax.lines:
        if len(line.get_xdata()) > 2:  # not a rule across the panel
            path = (
                line.get_path().interpolated(8)
                if line.get_linestyle() != "None"
                else line.get_path()
            )
            yield line.get_transform().transform(path.vertices)
    for cloud in ax.collections:
        if len(cloud.get_offsets()) > 1:
            yield cloud.get_offset_transform().transform(cloud.get_offsets())


WIDEST = 7.5  # inches; pages show 7, so letters stay as large as they are


def crowded(figure):
    """More than a reader takes in at a glance, or no title that says what to see."""
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    of_panels = [ax.get_legend() for ax in panels]
    legends = [legend for legend in (*figure.legends, *of_panels) if legend]
    if len(panels) > 4:
        yield f"{len(panels)} panels"
    yield from (
        f"a legend of {n} entries" for legend in legends if (n := len(legend.get_texts())) > 5
    )
    if figure.get_figwidth() > WIDEST:
        yield f"{figure.get_figwidth():.1f} inches wide"
    if not any(figure.get_suptitle() or ax.get_title() for ax in panels):
        yield "no title"


def outside(box, figure):
    """Whether a part of a box lies beyond the figure."""
    edge = figure.bbox
    return min(box.x0, box.y0, edge.x1 - box.x1, edge.y1 - box.y1) < -1


def faults(figure):
    """What a reader would see: labels of ticks on each other, words cut off, a legend on data."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    draw = canvas.get_renderer()
    if any(outside(legend.get_window_extent(draw), figure) for legend in figure.legends):
        yield "the legend of the figure is cut off"
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            for (one, first), (two, second) in pairwise(ticks(axis)):
                if first.get_rotation() % 90 == 0 and overlap(
                    first.get_window_extent(draw), second.get_window_extent(draw)
                ):
                    yield f"ticks {one!r} and {two!r} collide"
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_text() and outside(text.get_window_extent(draw), figure):
                yield f"{text.get_text()!r} is cut off"
        if legend := ax.get_legend():
            if outside(legend.get_window_extent(draw), figure):
                yield "a legend is cut off"
            for entry in legend.get_texts():
                box = entry.get_window_extent(draw)
                hit = sum(
                    int(box.count_contains(data[np.isfinite(data).all(1)])) for data in points(ax)
                )
                if hit:
                    yield f"the legend's {entry.get_text()!r} lies on {hit} points"


@pytest.mark.parametrize("id", [row["id"] for row in committed("full")])
def test_figure(id):
    figure = CLAIMS[id].figure(measured(id, "full"))
    complaints = [*crowded(figure), *faults(figure)]
    assert not complaints, "\n".join(complaints)


def test_what_is_looked_for_is_found():
    """Long labels, close ticks, a legend on a curve and a crowd are faults; a plain figure has
    none."""
    figure, ax = subplots()
    ax.plot(range(20), label="a line")
    ax.legend(loc="lower right")
    assert not list(faults(figure)) and list(crowded(figure)) == ["no title"]
    figure, axes = subplots(1, 5)
    lines = axes[0].plot(np.eye(6))
    axes[0].legend(lines, "abcdef")
    axes[0].set_title("five panels")
    assert list(crowded(figure)) == ["5 panels", "a legend of 6 entries", "16.0 inches wide"]
    figure, ax = subplots(width=1.5, height=1.5)
    ax.plot([5] * 20, label="on the line")
    ax.legend(loc="center")
    ax.set_xticks([5, 5.5], ["five and", "a half"])
    ax.set_ylabel("a label that is much longer than the panel is high")
    words = "; ".join(faults(figure))
    assert all(fault in words for fault in ("collide", "cut off", "lies on")), words
    figure, ax = subplots()
    ax.plot([1, 2], label="an entry that is longer than the figure is wide, by a good deal")
    figure.legend(loc="lower center")
    assert list(faults(figure)) == ["the legend of the figure is cut off"]
