"""Where the boxes and arrows of the three maps stand, laid out by Graphviz:  python tools/layout.py

Graphviz comes inside pygraphviz, a development requirement. What it finds is kept in
vit_theory/ledger/map.json, so drawing a map needs nothing.
"""

import json
import math
import textwrap
from functools import cache
from pathlib import Path

import click

from vit_theory.ledger.coverage import PLACES, places
from vit_theory.ledger.evidence import answers, standing
from vit_theory.ledger.files import write_file
from vit_theory.ledger.rules import LOOKS

OUT = Path(__file__).resolve().parent.parent / "vit_theory" / "ledger" / "map.json"
# in pixels, at the size where a letter is 12.5 pixels high
WIDTH = 1300
GAP = 56  # between columns, for the arrows
BETWEEN = 12  # between boxes of a column
LINE = 16.25
LETTER = 6.9  # a wide font's mean
PADDING = 12  # above and below all lines
LINK = 5  # above and below a link


def depth(statements):
    """How many columns a map has: the longest chain of boxes that rest on each other."""

    @cache
    def column(name):
        return 1 + max(map(column, statements[name].on), default=0)

    return max(map(column, statements))


def height(statement, width):
    """Of a box, by how many lines its words take."""
    shown = {row["id"]: LOOKS[row["verdict"]][0] for row in standing()}
    titles = answers()
    links = [f"oo{shown[id]}oo {titles.get(id, {}).get('title', id)}" for id in statement.rows]
    links += [f"-> {name}" for name in statement.pages] or ([] if links else ["-> in words"])
    bold = f"{statement.name}{'o' * (len(statement.name) // 6)}:"  # takes more room
    texts = [*links] if statement.kind == "derived here" else [f"{bold} {statement.says}", *links]
    letters = math.floor((width - 22) / LETTER)
    lines = sum(len(textwrap.wrap(text, letters)) for text in texts)
    return math.ceil(lines * LINE + len(links) * LINK + PADDING)


def arrow(position, top):
    """Graphviz's spline as the path of an SVG, with a head of two strokes."""
    end, *points = (pair.split(",")[-2:] for pair in position.split())
    (x, y), *bends = [(float(x), top - float(y)) for x, y in [end, *points]]
    start, *bends = [f"{round(x)} {round(y)}" for x, y in bends]
    tip = f"{round(x)} {round(y)}"
    head = f"L{tip}m-7 -4l7 4l-7 4"  # arrows come from the left
    return f"M{start}C{' '.join(bends)}{head}"


def laid_out(paper):
    """Boxes as [left, top, height] by name, and arrows as [from, to, path]."""
    from pygraphviz import AGraph

    statements = places(paper)
    columns = depth(statements)
    width = round((WIDTH - (columns - 1) * GAP) / columns)
    graph = AGraph(directed=True, rankdir="LR", nodesep=BETWEEN / 72, ranksep=GAP / 72)
    graph.node_attr.update(shape="box", fixedsize=True, label="")
    graph.edge_attr.update(tailport="e", headport="w")
    for statement in statements.values():
        graph.add_node(statement.name, width=width / 72, height=height(statement, width) / 72)
    for statement in statements.values():
        for name in statement.on:
            graph.add_edge(name, statement.name)
    graph.layout("dot")
    _, _, right, top = map(float, graph.graph_attr["bb"].split(","))
    boxes = {}
    for statement in statements.values():
        x, y = map(float, graph.get_node(statement.name).attr["pos"].split(","))
        tall = height(statement, width)
        boxes[statement.name] = [round(x - width / 2), round(top - y - tall / 2), tall]
    order = sorted(boxes, key=lambda name: boxes[name][:2])  # column by column
    return {
        "width": round(right),
        "height": round(top),
        "box": width,
        "boxes": {name: boxes[name] for name in order},
        "arrows": [
            [*edge, arrow(graph.get_edge(*edge).attr["pos"], top)] for edge in graph.edges()
        ],
    }


@click.command(help=__doc__)
def main():
    maps = {paper: laid_out(paper) for paper in PLACES}
    lines = json.dumps(maps, ensure_ascii=False).replace("], ", "],\n ").replace("}, ", "},\n")
    write_file(OUT, lines + "\n")
    print(OUT)


if __name__ == "__main__":
    main()
