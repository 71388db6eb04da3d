"""A page for each row of the ledger, drawn from the committed evidence; the id of the row is the
page's name."""

import re
from configparser import ConfigParser
from io import BytesIO
from itertools import chain
from pathlib import Path

import yaml
from finish import signs
from narrow import narrowed, suits
from PIL import Image, ImageOps

from vit_theory.figures import box_of, pieces, to_svg
from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.coverage import foundations, places
from vit_theory.ledger.evidence import (
    RUNS,
    Card,
    answers,
    committed,
    fresh_seeds,
    last_fresh,
    measured,
    outdated,
)
from vit_theory.ledger.report import TEMPLATES, formulas, greek
from vit_theory.ledger.rules import HOLDS, LOOKS, VERDICTS, verdict_of

ROOT = Path(__file__).resolve().parent.parent
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PAPERS = dict(zip("ABC", CITATION["references"], strict=True))
IDS = [row["id"] for row in committed("quick")]
CLAIMS = {claim.id: claim for claim in load_claims()}


def settings(name):
    """A line of settings.ini."""
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"][name]


def plain(text):
    """Text of a row for a cell of a table: no sign in it means anything to Markdown."""
    return re.sub(r"([\\*_|<>$`\[\]^~])", r"\\\1", greek(signs(" ".join(str(text).split()))))


def formula(text):
    """The same, its exponents raised and its indices lowered."""
    return re.sub(r"([\\*_|`$\[\]~])", r"\\\1", str(formulas(signs(" ".join(text.split())))))


def table(head, rows, name):
    """A Markdown table in a container of its own, which the style sheet knows by name."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        f":::{{container}} {name}\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + "\n\n:::\n"
    )


def badge(verdict, word=""):
    return f"[{LOOKS[verdict][1]} {word or verdict}]{{.verdict .v{VERDICTS.index(verdict)}}}"


def drawn(row):
    """Whether chance plays a part: a proof or a counterexample hangs on no seeds."""
    return row["evidence"] == "measurement"


def verdicts(card):
    """The committed runs one below the other; a verdict that is not that of the largest says so."""
    for run, row in card.rows.items():
        differs = "" if row["verdict"] == card.row["verdict"] else "<br>differs"
        seeds = f"<br>seeds {', '.join(map(str, row['seeds']))}" if drawn(row) else ""
        said = (
            f"{row['measured']} {row['note'][:1].upper()}{row['note'][1:]} {outdated(row)}".strip()
        )
        yield [f"**{run}**{seeds}", badge(row["verdict"]) + differs, plain(said)]


def quantities(card):
    """What was measured, each quantity with what is asked of it, run beside run."""
    runs = {}
    for run, row in card.rows.items():
        runs[run] = {quantity["name"]: quantity for quantity in row["quantities"]}
    for name in dict.fromkeys(chain(*runs.values())):
        of_runs = [quantities_of.get(name, {}) for quantities_of in runs.values()]
        asked = [quantity.get("threshold") for quantity in of_runs]
        cells = [on_lines(dict.fromkeys(asked))]
        for quantity in of_runs:
            cells.append(on_lines([quantity.get("value"), quantity.get("spread")]))
        heads = ["asked", *runs]  # on a phone a cell says its own column
        yield [plain(name), *map(with_head, heads, cells)]


def on_lines(texts):
    """Those of the texts that are not empty, below each other."""
    return "<br>".join(plain(text) for text in texts if text)


def with_head(head, cell):
    return f"[{head}]{{.head}} {cell}" if cell else ""


def criteria(claim, card):
    """The requirements, one a line, each with a tick where the largest run meets it."""
    data = measured(claim.id, card.run)
    for rule in claim.rules:
        value = rule.value(data)
        ask = rule.asked(data) if value is not None else None
        if value is None or ask is None:
            continue
        met = verdict_of(rule, ask, value) == HOLDS
        yield f"- {'✓' if met else '✗'} {formula(f'{rule.name}: {ask.words}')}"
    for why in claim.caveats:
        yield f"- · {formula(why)}"


def image(id, parts, alt):
    """The figure of a row, as Markdown: panels side by side, which a phone has one below the
    other, each with the axis that they share."""
    wide = " wide" if parts == [None] else ""  # a phone is too narrow for it
    whole = f"```{{image}} {id}.svg\n:alt: {alt}\n:class: dark-light{wide}\n```\n"
    if parts == [NARROW]:
        small = whole.replace(f"{id}.svg", f"{id}-narrow.svg").replace(": dark", ": narrow dark")
        both = f"{whole.replace(': dark', ': roomy dark')}\n{small}"
        return f":::::{{container}} panels\n{both}\n:::::\n"
    if len(parts) == 1:
        return whole
    lines = [":::::{container} panels\n"]
    for number, alone in enumerate(parts):
        words = alt if number == 0 else f"{alt} (part {number + 1})"
        one = whole.replace(f"{id}.svg", f"{id}-{number}.svg").replace(alt, words, 1)
        if isinstance(alone, tuple):
            axis, panel = alone
            alone = False
            start = f'<div class="sharing" style="--axis: {axis:.0f}; --panel: {panel:.0f}">'
            before = f"```{{image}} {id}-axis.svg\n:alt: the axis\n:class: dark-light axis\n```\n"
            one = f"```{{raw}} html\n{start}\n```\n{before}{one}```{{raw}} html\n</div>\n```\n"
        lines.append(f"::::{{container}} across\n{one}::::\n" if alone else one)
    return "\n".join([*lines, ":::::\n"])


def page(id, place, parts):
    """The page of a row; `place` is where it is explained: (label, title of the page, title of the
    section); `parts` are those of its figure."""
    card = Card(id)
    run = card.run
    row = card.row
    label, title, section = place
    answer = answers().get(id, {"title": id, "answer": row["measured"]})
    statements = places(id[0])
    stated_as = [name for name, statement in statements.items() if id in statement.rows]
    terms = dict.fromkeys([id, *stated_as])
    yield f"# {plain(answer['title'])}\n\n" + "".join(
        f"```{{index}} ! {name}\n```\n" for name in terms
    )
    source = f"[Paper {row['paper']}]({PAPERS[row['paper']]['url']}), {plain(row['source'])}"
    kind = {"quoted": "quoted", "paraphrased": "quoted", "recalled": "recalled"}.get(
        row["kind"], "derived"
    )
    statement = (
        f"> {formula(row['statement'])}\n>\n> {source} · {row['kind']}, "
        f"{row['evidence']} · `` {id} ``\n"
    )
    yield f"{{.box .box-{kind}}}\n{statement}"
    yield f"{{.lead}}\n{badge(row['verdict'])} {formula(answer['answer'])}\n"
    yield image(id, parts, row["measured"])
    scale = RUNS[run] if drawn(row) else RUNS[run].partition(",")[0]
    yield f"{{.caption}}\n**Figure 1.** {formula(row['measured'])} ({scale})\n"
    yield f"Explained in {{ref}}`{title}: {section} <{label}>`.\n"
    yield (
        "## Criterion\n\nA tick says that the largest run meets it. Where it has changed, "
        "its history says when and why.\n"
    )
    yield "\n".join(criteria(CLAIMS[id], card)) + "\n"
    if row["cannot"]:
        yield (
            "No rule of it gives "
            + " or ".join(f"*{verdict}*" for verdict in row["cannot"])
            + ".\n"
        )
    if row["history"]:
        yield "<details><summary>How the criterion changed</summary>\n"
        for change in row["history"]:
            yield f"- Until {change['since']}: {formula(change['was'])} ({formula(change['why'])})"
        yield "\n</details>\n"
    if rows := list(quantities(card)):
        yield "## Quantities\n\n" + table(["quantity", "asked", *card.rows], rows, "quantities")
    yield "\n## Verdicts\n\n" + table(["run", "verdict", "what was seen"], verdicts(card), "runs")
    studies = {
        name: study["counts"][id]
        for name, study in fresh_seeds().items()
        if drawn(row) and id in study["counts"]
    }
    of_that_time = ", by the criterion and size of that time"
    for name, counts in studies.items():
        if name == last_fresh(id)[0]:
            of_that_time = ""
        sets = sum(counts.values())
        verdicts_of = ", ".join(f"{verdict} {n} of {sets}" for verdict, n in counts.items())
        seeds = name.replace("triple", "seed set")
        yield f"**Fresh seeds** ({seeds}{of_that_time}): {verdicts_of}.\n"
    if below := foundations(id):
        yield (
            f"## Rests on\n\nAs [the map](/ledger/11_coverage.ipynb) of paper {row['paper']} has "
            "it:\n"
        )
        for name, rows in below.items():
            links = [f"[{page}](/{page}.ipynb)" for page in statements[name].pages]
            links += [f"`{claim}`" for claim in rows]
            yield f"- {plain(name)}: {', '.join(links)}\n" if links else f"- {plain(name)}\n"
    asked = [
        "",
        " --scale full",
        *([" --images FOLDER/cifar10"] if "photographs" in card.rows else []),
    ]
    commands = [f"vit-theory reproduce {id}{options}" for options in asked]
    commands.append(f"vit-theory show {id}")
    listing = "\n".join(commands)
    yield f"## Run it yourself\n\n```bash\n{listing}\n```\n"
    took = ", ".join(f"{row['seconds']:.0f} s ({run})" for run, row in card.rows.items())
    yield (
        f"The committed runs took {took}. The last line runs nothing: "
        "it prints the row and draws its figure.\n"
    )


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


# Blue words are lighter in the dark, to be read; lines and areas are as they are.
WORDS = """<style>@media (prefers-color-scheme: dark) {
[id^="text_"] [style*="#0072b2"] { fill: #3d9bdc !important; }
}</style>"""
# and the ground of a figure that is opened by itself
STYLES = f"<style>{(TEMPLATES / 'figure.css').read_text(encoding='utf-8')}</style>{WORDS}"
NARROW = "narrow"  # a figure of one piece that has another one for phones
SIZE = re.compile(r'width="[\d.]+pt" height="[\d.]+pt" viewBox="[^"]*"')


def as_svg(figure):
    """A figure as SVG, with its colors in the dark."""
    return to_svg(figure).replace("<defs>", f"{STYLES}<defs>", 1)


def window(drawn, box, style=""):
    """The part of a drawn figure inside a box, (left, top, right, bottom) in points."""
    left, top, right, bottom = box
    size = f'width="{right - left:.1f}pt" height="{bottom - top:.1f}pt" '
    size += f'viewBox="{left:.1f} {top:.1f} {right - left:.1f} {bottom - top:.1f}"'
    return SIZE.sub(size + style, drawn, count=1)


def pictures(folder, site):
    """The figure of every claim, as SVG, and all of them in one picture, to be shared -> {id:
    whether each of its pieces has a line of its own; for one that shares an axis the widths of both
    in the page; None for a wide one that is whole}."""
    tiles = []
    sizes = {}
    site.mkdir(parents=True, exist_ok=True)
    for claim in CLAIMS.values():
        data = measured(claim.id, Card(claim.id).run)
        figure = claim.figure(data)
        most = len(pieces(figure))
        shared = not complete(figure) or len(pieces(figure)) < most
        if shared:  # as it was
            figure = claim.figure(data)
        parts = pieces(figure)
        drawn = as_svg(figure)
        sizes[claim.id] = [alone for _, alone in parts]
        for_phones = suits(figure)
        if for_phones:
            sizes[claim.id] = [NARROW]
        elif len(parts) == 1 and figure.get_figwidth() > 5.8:
            sizes[claim.id] = [None]
        elif shared and len(parts) > 1:
            sides = [panel for panel, (_, alone) in enumerate(parts) if not alone]
            _, top, _, bottom = parts[sides[0]][0]
            left, first, _, last = box_of(figure.axes[0], figure, tight=False)
            edge = left + 1.5
            # neither the title above it nor the numbers below
            inset = f"{first - top - 6:.1f}px 0 {bottom - last - 6:.1f}px 0"
            axis = window(drawn, (0, top, edge, bottom), f' style="clip-path: inset({inset})"')
            (folder / f"{claim.id}-axis.svg").write_text(axis, encoding="utf-8")
            for panel in sides[1:]:
                begin, _, end, _ = parts[panel][0]
                sizes[claim.id][panel] = (4 / 3 * edge, 4 / 3 * (end - begin))
        for number, (box, _) in enumerate(parts):
            name = f"{claim.id}{f'-{number}' * (len(parts) > 1)}.svg"
            (folder / name).write_text(window(drawn, box), encoding="utf-8")
        figure.savefig(png := BytesIO(), dpi=72)
        if for_phones:
            text = as_svg(narrowed(figure))
            (folder / f"{claim.id}-narrow.svg").write_text(text, encoding="utf-8")
        small = Image.open(png).convert("RGB")
        tiles.append(
            ImageOps.fit(small, (120, 84), centering=(0, 0))
        )  # of several panels the first
    poster = Image.new("RGB", (1200, 630), "white")
    for number, tile in enumerate(tiles):
        poster.paste(tile.resize((116, 81)), (120 * (number % 10), 4 + 79 * (number // 10)))
    poster.quantize(64).save(site / "poster.png", optimize=True)
    return sizes


def people(authors):
    return " and ".join(
        person.get("name") or f"{person['given-names']} {person['family-names']}"
        for person in authors
    )


def about():
    """How to cite the project and the papers, from CITATION.cff, and what can be downloaded."""
    citation = CITATION
    words = "```{index} ! cite\n```\n"
    yield f"# Cite and download\n\n{words}\n{{.lead}}\n{citation['abstract']}\n"
    yield f"## Cite this\n\n{citation['message']} ({{download}}`CITATION.cff`)\n"
    entry = {
        "title": citation["title"],
        "author": people(citation["authors"]),
        "version": citation["version"],
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in entry.items())
    yield f"```bibtex\n@software{{vit_theory,\n{lines}\n}}\n```\n"
    yield (
        "## Papers\n\n[Notation](/00_notation.ipynb) says what their letters and words mean, "
        "and where the papers clash.\n"
    )
    for letter, paper in PAPERS.items():
        by = people(paper["authors"]).replace(" and ", ", ")
        published = paper["notes"].partition(", ")[2] or f"arXiv {paper['year']}"
        yield f"- **{letter}**: {by}, [{paper['title']}]({paper['url']}), {published}\n"
    yield (
        "Their [claims](/ledger/10_verdicts.ipynb) and [maps](/ledger/11_coverage.ipynb) are on "
        "pages of their own.\n"
    )
    yield (
        "## Downloads\n\n- {download}`All notebooks <notebooks.zip>`\n- {download}`License "
        "<LICENSE>`\n"
    )
