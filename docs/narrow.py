"""A figure for a phone: as wide as the screen, its legend below and long words in several lines."""

import re
import textwrap
from itertools import pairwise

from vit_theory.figures import pieces, style

WIDTH = 3.5  # inches: the text column of a phone that is 390 points wide, at 100 points an inch
WIDE = 3.7  # what is narrower than this is shown as it is
LINE = 0.185  # inches that a line of a legend takes
FEW = 4  # panels; more are a wall, which is read as a whole


def panels_of(figure):
    """The axes of a figure, color bars aside."""
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def suits(figure):
    """Whether a figure is too wide for a phone and can be narrower: it does not fall apart into
    panels, is no wall of them, and no table of words in cells."""
    panels = panels_of(figure)
    tables = any(
        ax.images and ax.texts and max(len(text.get_text()) for text in ax.texts) > 4
        for ax in panels
    )
    alone = len(panels) == 1 or len(panels) == len(figure.axes)
    few = len(panels) <= FEW and len(pieces(figure)) == 1
    return figure.get_figwidth() > WIDE and few and alone and not tables


def wrapped(text, width):
    """A text in lines of at most `width` letters; a formula is not broken."""
    if any(" " in formula for formula in re.findall(r"\$[^$]*\$", text)):
        return text
    return textwrap.fill(" ".join(text.split()), width, break_long_words=False)


def fit_words(figure, words, upright=False):
    """Break a title or an axis's name into lines until it stands inside of its figure."""
    whole = words.get_text()
    for width in (60, 44, 36, 30, 24, 18):
        figure.draw_without_rendering()
        box, most = words.get_window_extent(), figure.bbox
        inside = (box.y0, box.y1, most.height) if upright else (box.x0, box.x1, most.width)
        if inside[0] >= 0 and inside[1] <= inside[2]:
            return
        words.set_text(wrapped(whole, width))


def clear_title(figure, ax):
    """Lift a title above words that stand on the upper edge of its panel."""
    figure.draw_without_rendering()
    over = max((text.get_window_extent().y1 for text in ax.texts), default=0) - ax.bbox.y1
    if over > 0 and ax.get_title():
        ax.set_title(ax.get_title(), pad=6 + 72 / figure.dpi * over)


def fit_ticks(figure, ax):
    """Names along an axis in several lines, where they take half of the width or meet."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    if any(len(name) > 16 and re.search("[a-z] [a-z]", name) for name in names):
        names = [wrapped(name, 20) for name in names]
        ax.set_yticks(ax.get_yticks(), names)
        lines = len(names) * max(name.count("\n") + 1 for name in names)
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, max(height, 0.8 + LINE * lines))
    figure.draw_without_rendering()
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    if any(one.x1 + 4 > other.x0 for one, other in pairwise(boxes)) and all(
        re.search("[a-z]{2}", label.get_text()) for label in labels
    ):
        ax.set_xticks(ax.get_xticks(), [wrapped(label.get_text(), 9) for label in labels])


def legend_below(figure, legend):
    """The same entries below all panels, where they are on no data."""
    handles = legend.legend_handles
    names = [text.get_text().replace(",\n", ", ") for text in legend.get_texts()]
    title = legend.get_title().get_text() or None
    if legend in figure.legends:
        figure.legends.remove(legend)  # in a copy, its own method knows the first figure's list
    else:
        legend.remove()
    longest = max(map(len, names))
    columns = 2 if longest <= 24 and len(names) > 1 else 1
    lines = -(-len(names) // columns) + (title is not None)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LINE * lines)
    figure.legend(handles, names, title=title, loc="outside lower center", ncols=columns)


def narrowed(figure):
    """The figure, narrow enough for a phone."""
    panels = panels_of(figure)
    with style():
        height = figure.get_figheight() * len(panels)
        figure.set_size_inches(WIDTH, height)
        if len(panels) > 1:  # one below the other, each with its legend
            places = figure.add_gridspec(len(panels), 1)
            for place, ax in enumerate(panels):
                ax.set_subplotspec(places[place])
        else:
            legends = [*figure.legends, *filter(None, [panels[0].get_legend()])]
            for legend in legends:
                legend_below(figure, legend)
        for ax in panels:
            fit_ticks(figure, ax)
            fit_words(figure, ax.title)
            clear_title(figure, ax)
            fit_words(figure, ax.xaxis.label)
            fit_words(figure, ax.yaxis.label, upright=True)
        if figure._suptitle:
            fit_words(figure, figure._suptitle)
    return figure
