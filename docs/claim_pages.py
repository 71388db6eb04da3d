"""A page for each row of the ledger, drawn from the committed evidence; the id of the row is the
page's name."""

import re
from configparser import ConfigParser
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path

import yaml
from drawings import drawn
from finish import signs
from PIL import Image, ImageOps

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
from vit_theory.ledger.report import formulas, greek
from vit_theory.ledger.rules import HOLDS, LOOKS, VERDICTS, verdict_of

ROOT = Path(__file__).resolve().parent.parent
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PAPERS = dict(zip("ABC", CITATION["references"], strict=True))
POSTER = (1200, 630)  # pixels, as pages that show links to others ask for
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


def by_chance(row):
    """Whether chance plays a part: a proof or a counterexample hangs on no seeds."""
    return row["evidence"] == "measurement"


def verdicts(card):
    """The committed runs one below the other; a verdict that is not that of the largest says so."""
    for run, row in card.rows.items():
        differs = "" if row["verdict"] == card.row["verdict"] else "<br>differs"
        seeds = f"<br>seeds {', '.join(map(str, row['seeds']))}" if by_chance(row) else ""
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


def page(id, place, drawing):
    """The page of a row; `place` is where it is explained: (label, title of the page, title of the
    section); `drawing` is its figure."""
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
    yield drawing.markdown(f"/claims/{id}", row["measured"])
    scale = RUNS[run] if by_chance(row) else RUNS[run].partition(",")[0]
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
        if by_chance(row) and id in study["counts"]
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
        *([" --scale full --images FOLDER/cifar10"] if "full photographs" in card.rows else []),
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


def places_of_tiles(number):
    """Where so many tiles stand on the poster, in as few columns as all of them fit in -> (width
    and height of a tile, [corner at the upper left of each])."""
    width, height = POSTER
    columns = 1
    while -(-number // columns) * (width // columns * 7 // 10) > height:
        columns += 1
    step = width // columns, width // columns * 7 // 10
    above = (height - -(-number // columns) * step[1]) // 2
    corners = [(step[0] * (n % columns), above + step[1] * (n // columns)) for n in range(number)]
    return (step[0] - 4, step[1] - 3), corners


def pictures(folder, site):
    """The figure of every claim, as SVG, and all of them in one picture, to be shared -> {id:
    its drawing}."""
    poster = Image.new("RGB", POSTER, "white")
    size, corners = places_of_tiles(len(CLAIMS))
    drawings = {}
    site.mkdir(parents=True, exist_ok=True)
    for claim, corner in zip(CLAIMS.values(), corners, strict=True):
        data = measured(claim.id, Card(claim.id).run)
        drawings[claim.id] = drawn(partial(claim.figure, data))
        drawings[claim.id].write(folder, claim.id)
        claim.figure(data).savefig(png := BytesIO(), dpi=72)
        small = Image.open(png).convert("RGB")
        # of several panels the first
        poster.paste(ImageOps.fit(small, size, centering=(0, 0)), corner)
    poster.quantize(64).save(site / "poster.png", optimize=True)
    return drawings


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
