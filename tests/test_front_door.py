"""What somebody meets first: two commands that exist, pictures and links that lead somewhere,
numbers that the evidence has."""

import ast
import functools
import json
import re
from collections import defaultdict

import numpy as np
import pytest
from common import CHAPTERS, NOTEBOOKS, ROOT, cells_in, outputs, script
from matplotlib import pyplot

from vit_theory.figures import style, to_svg
from vit_theory.images.claims.two_phase import points_ahead
from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.evidence import (
    RUNS,
    Card,
    Verdicts,
    answers,
    committed,
    measured,
    rows_by_claim,
    run_folder,
    standing,
)
from vit_theory.ledger.rules import AGAINST, CAVEAT, HOLDS, INCONCLUSIVE, REFUTED, VERDICTS
from vit_theory.selection.claims.predicted import scatter_by_chance, with_runs
from vit_theory.selection.claims.sample_complexity import with_tail
from vit_theory.selection.n50 import local_slopes, over_seeds
from vit_theory.selection.phase_diagram import border, border_slope

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(text):
    """The shell commands of each block of a page, without comments."""
    lines_of_blocks = map(str.splitlines, re.findall(r"```bash\n(.*?)```", text, re.S))
    return [list(map(without_comment, lines)) for lines in lines_of_blocks]


def without_comment(line):
    return line.partition("#")[0].strip()


def test_the_two_commands_come_first():
    commands = blocks(README)[0]
    assert commands == ["make reproduce", "make test"], (
        f"the README begins with the two commands, not with {commands}"
    )
    assert README.index("make reproduce") < README.index(
        "\n## ", README.index("## Two commands") + 1
    )
    above = README[: README.index("## The parts")]
    assert all(
        f"]({picture}" in above
        for picture in ("nbs/pictures/A.svg", "nbs/pictures/B.svg", "nbs/pictures/C.svg")
    )
    assert above.count("https://arxiv.org/abs/") == 3, "each card links to its paper"


def test_the_front_page_is_short():
    """At most 500 words beside tables, the two commands and what is folded; the targets of links do
    not count."""
    parts = re.split(r"^## ", re.sub(r"<details>.*?</details>", "", README, flags=re.S), flags=re.M)
    kept = [section for section in parts if not section.startswith("Two commands")]
    assert len(kept) == len(parts) - 1
    lines = [line for line in "\n".join(kept).splitlines() if not line.startswith("|")]
    words = re.sub(r"\]\([^)]*\)", "]", "\n".join(lines)).split()
    assert len(words) <= 500, len(words)


def test_the_first_screen():
    """A sentence, a picture with its finding, the commands; nothing to press, since a code host
    shows no explorer."""
    above = README[: README.index("make reproduce")]
    assert re.search(r"^> .+$", above, re.M) and above.count("![") == 1
    assert not re.search(r"\b(?:press|click|drag|slider)\b", README, re.I)


HEAD = "| paper | statement | words | our answer | evidence | page |"


def rows_of(text):
    """The rows of a table of statements -> id, words, answer, page."""
    pattern = (
        r"^\| [ABC] \| [^|]+ \| ([^|]+) \| ([^|]+) \| [^|]+ \| "
        r"\[`([ABC]-[\w.-]+)`\]\((nbs/[\w/]+\.ipynb)\) \|$"
    )
    return [
        (id, words, answer, page) for words, answer, id, page in re.findall(pattern, text, re.M)
    ]


def test_statements_have_their_answers():
    """The papers' statements stand in one table, ours in a second that is folded; each leads to its
    page."""
    shown, ours = README.split("<details><summary>Statements of our own")
    ours = ours.partition("</details>")[0]
    assert shown.count(HEAD) == 1 and ours.count(HEAD) == 1 and README.count(HEAD) == 2
    kinds = {row["id"]: row["kind"] for row in standing()}
    for text, of_ours in ((shown, False), (ours, True)):
        linked = rows_of(text)
        assert len(linked) >= 12 and all(
            (kinds[id] == "derived here") == of_ours for id, *_ in linked
        )
        assert [words for _, words, *_ in linked] == [kinds[id] for id, *_ in linked]
        bare = [
            id
            for id, _, _, page in linked
            if f'Card(\\"{id}\\")' not in (ROOT / page).read_text(encoding="utf-8")
        ]
        assert not bare


def test_verdicts_of_the_front_are_those_of_the_rows():
    """Each answer begins with the verdict of the largest run and names, in order, the verdicts of
    quick runs that differ."""
    largest = {row["id"]: row["verdict"] for row in standing()}
    wrong, differ = [], 0
    for id, _, answer, _ in rows_of(README):
        verdict = re.match(r"\S+ ([a-z ]+)", answer)[1]
        quick = [
            row["verdict"]
            for run in ("quick", "other seeds")
            for row in committed(run)
            if row["id"] == id
        ]
        others = [word for word in dict.fromkeys(quick) if word != largest[id]]
        _, separator, said = answer.partition("quick runs say: ")
        differ += bool(others)
        if verdict != largest[id] or said != ", ".join(others) or bool(separator) != bool(others):
            wrong.append(f"{id}: {answer}; largest run: {largest[id]}, quick runs: {quick}")
    assert not wrong, "; ".join(wrong)
    assert README.count("quick runs say: ") == differ


def test_the_front_says_what_is_recalled():
    """One sentence above the table says which statements stand there from memory."""
    above = README[README.index("## What the papers state") : README.index(HEAD)]
    assert "**recalled**" in above and "Definition 3.2" in above


def test_routes_and_examples():
    """Three routes; each part of the package has one example, folded."""
    for minutes in (5, 40, 120):
        assert len(re.findall(rf"^\| {minutes} \|", README, re.M)) == 1
    parts = README[README.index("## The parts") :]
    folded = re.findall(r"<details>.*?</details>", parts, re.S)
    assert len(folded) == 3 and all("```python" in example for example in folded)
    assert parts.count("```python") == sum(example.count("```python") for example in folded)


def test_pictures_of_the_cards_are_drawn_from_the_evidence():
    """The pictures show the measurements whose numbers the cards say."""
    pictures = script("tools/pictures.py")
    with style():
        made = {name: to_svg(draw(), ground=True) + "\n" for name, draw in pictures.CARDS.items()}
    stale = [
        name
        for name, text in made.items()
        if (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8") != text
    ]
    assert not stale, f"drawn from other measurements (run: python tools/pictures.py): {stale}"


def test_the_boxes_of_the_maps_have_room_for_their_words():
    """Words change with verdicts and answers; then the maps are laid out anew."""
    layout = script("tools/layout.py")
    for paper, drawn in json.loads(layout.OUT.read_text(encoding="utf-8")).items():
        kept = {name: tall for name, (_, _, tall) in drawn["boxes"].items()}
        needed = {
            name: layout.height(statement, drawn["box"])
            for name, statement in layout.places(paper).items()
        }
        assert kept == needed, f"paper {paper}: run python tools/layout.py, then make notebooks"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    inner = [
        target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:|#", target)
    ]
    dead = [target for target in inner if not (ROOT / target.partition("#")[0]).exists()]
    assert inner and not dead, f"{page} links to what is not there: {dead}"


def test_the_plain_lines_are_those_of_the_makefile():
    """Without make: the same installation, the same ledger."""
    plain = blocks(README)[1]
    for line in plain:
        assert line.startswith((".venv/bin/", "python3 -m venv")), line
    for needed in ("-e . -c constraints.txt", "-e '.[dev]' -c constraints.txt", "--out claims"):
        assert needed in MAKEFILE and any(needed in line for line in plain), needed


@pytest.mark.parametrize("name", ["index", "ledger/10_verdicts"])
def test_generated_text_is_what_the_evidence_says(name):
    """The tables and numbers that the front pages show are those of the committed measurements."""
    names, checked = {}, 0
    for cell in cells_in(f"{name}.ipynb"):
        if cell.source.startswith("#| hide"):
            exec(cell.source, names)
        if cell.source.startswith("#| echo: false") and (stored := outputs(cell, "text/markdown")):
            *before, last = ast.parse(cell.source).body
            exec(compile(ast.Module(before, []), name, "exec"), names)
            made = eval(compile(ast.Expression(last.value), name, "eval"), names)
            assert stored == [made.data], (
                f"nbs/{name}.ipynb is stale: python tools/notebooks.py run nbs/{name}.ipynb"
            )
            checked += 1
    assert checked


def test_cards_say_what_the_evidence_says():
    """Where a notebook ends a cell with Card("ID"), the stored card is the one of today's
    evidence."""
    stale = []
    for name in NOTEBOOKS:
        for cell in cells_in(name):
            if cell.cell_type == "code" and (
                card := re.search(r"(?m)^Card\(\"([^\"]+)\"\)\s*\Z", cell.source)
            ):
                if Card(card[1])._repr_markdown_() not in outputs(cell, "text/markdown"):
                    stale.append(f"nbs/{name}: {card[1]}")
            line = re.search(r"(?m)^Verdicts\(([^()]+)\)\s*\Z", cell.source)
            if cell.cell_type == "code" and line:
                ids = re.findall(r'"([^"]+)"', line[1])
                if Verdicts(*ids)._repr_markdown_() not in outputs(cell, "text/markdown"):
                    stale.append(f"nbs/{name}: {', '.join(ids)}")
    assert not stale, "run these notebooks again (python tools/notebooks.py run ...): " + ", ".join(
        stale
    )


def test_every_answer_states_the_verdict_of_the_largest_run():
    """The sentences that README, essays, cards and claim pages share are written by hand: they
    agree with what is judged."""
    said = answers()
    ids = {row["id"] for row in standing()}
    assert set(said) == ids, (
        f"answers.json of the chapters lack {sorted(ids - set(said))}, "
        f"and answer {sorted(set(said) - ids)}, which are no claims"
    )
    wrong = [
        f"{row['id']}: {said[row['id']]['verdict']}, the largest run says {row['verdict']}"
        for row in standing()
        if said[row["id"]]["verdict"] != row["verdict"]
    ]
    assert not wrong, "; ".join(wrong)
    for id, answer in said.items():
        assert answer["answer"].endswith(".") and len(answer["answer"].split()) <= 40, id
        assert 1 < len(answer["title"].split()) <= 10, id


# Numbers of an answer that stand in no text of its rows: sizes of the experiment, and values read
# off the figure's data.
BESIDE = {
    "A-attention-ceiling": "0.77",
    "A-attention-eta": "0.025",
    "A-attention-sparse": "0.31",
    "A-images-mass": "0.25",
    "A-initial-border": "4.0",
    "A-iterations-alpha": "0.001 40",
    "A-limit": "15 50 8 0.03125",
    "A-limit-logarithm": "50 10",
    "A-no-attention": "43 80",
    "A-noisy-tokens": "0.099",
    "A-sample-complexity": "0.5",
    "A-sparsification": "20 16",
    "B-figure-2-vit": "0.20",
    "B-long-training": "4000",
    "B-scatter-response": "64000",
    "B-sigma-A-ablation": "0.001",
    "B-theorem-3.1": "0.129",
    "B-theorem-4.1-sample": "20000",
    "B-theorem-4.2": "25",
    "C-corollary-3": "5 7",
    "C-corollary-4": "4e-14",
    "C-dilation": "8",
    "C-finite-logits": "16 0.24",
    "C-stride": "12 26",
}


def numbers(text):
    """The numbers of a text, as written -> (word, value)."""
    # N_{50} is a name
    plain = re.sub(r"_\{\d+\}", "", text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
    words = re.findall(r"(?<![\w.^/])-?\d*\.?\d+(?:e-?\d+)?(?![\w^²])|(?<=/)\d+", plain)
    return [(word, abs(float(word))) for word in words]


def half_a_digit(word):
    """How far a number may be from the one that it rounds."""
    base, _, exponent = word.partition("e")
    return 0.51 * 10.0 ** (int(exponent or 0) - len(base.partition(".")[2]))


def drawn():
    """Each figure of a page that is drawn from committed measurements -> page, {(claim, run)},
    caption, title in the cell."""
    for page in NOTEBOOKS:
        cells = cells_in(page)
        named = {}
        for place, cell in enumerate(cells):
            if cell.cell_type != "code":
                continue
            read = []
            for name, id, run in re.findall(
                r"(?:(\w+) = )?measured\(f?\"([^\"]+)\"(?:, \"?([\w ]+)\"?)?\)", cell.source
            ):
                ids = (
                    [id]
                    if "{" not in id
                    else [each for each in answers() if f'"{each[2:]}"' in cell.source]
                )
                runs = (
                    [each for each in RUNS if f'"{each}"' in cell.source]
                    if run == "run"
                    else [run or "full"]
                )
                read += (pairs := [(each, run) for each in ids for run in runs])
                named[name] = pairs
            words = set(re.findall(r"\w+", cell.source))
            read = read or [
                pair for name, pairs in named.items() if name in words for pair in pairs
            ]
            if read and outputs(cell, "image/png"):
                after = "\n\n".join(
                    each.source
                    for each in cells[place + 1 : place + 4]
                    if each.cell_type == "markdown"
                )
                caption = re.search(r"\*\*Figure\.\*\* (.*?)(?=\n\n|\Z)", after, re.S)
                titles = re.findall(r"(?:title=|title\()f?\"([^\"]+)\"", cell.source)
                yield page, read, caption[1] if caption else "", titles


def test_a_figure_has_a_caption():
    """After a cell that draws from committed measurements stands a finding, with scale and seeds,
    but where nothing is drawn."""
    bare = [
        f"{page}: {read}"
        for page, read, caption, _ in drawn()
        if page.split("/")[0] in CHAPTERS
        and not (
            "nothing is drawn" in caption
            or ("scale" in caption.lower() and re.search("seed|random", caption))
        )
    ]
    assert not bare, "\n".join(bare)


@functools.cache
def told():
    """By claim, the numbers in what its committed rows measured, ask for or state; shares as
    percentages too."""
    numbers_of = defaultdict(lambda: {1, 2, 3})  # 3 seeds
    for row in (row for run in RUNS for row in committed(run)):
        quantities = [value for quantity in row["quantities"] for value in quantity.values()]
        parts = [row[name] for name in ("measured", "note", "statement", "criterion", "source")]
        for _, value in numbers(" ".join(map(str, [*parts, *quantities]))):
            numbers_of[row["id"]] |= {value, 100 * value}
    return numbers_of


def strange(text, known):
    """The numbers of a text that round none of the known ones."""

    def is_known(word, value):
        return any(abs(value - other) <= half_a_digit(word) for other in known)

    return [word for word, value in numbers(text) if not is_known(word, value)]


def test_numbers_of_an_answer_are_those_of_the_evidence():
    """Each number that an answer says rounds one that some committed run of its claim measured,
    asks for or states."""
    wrong = {}
    for id, said in answers().items():
        if differ := set(strange(said["answer"], told()[id])) ^ set(BESIDE.get(id, "").split()):
            wrong[id] = differ
    assert not wrong, wrong


data = functools.cache(measured)


def titles_in(figure):
    """The titles of a figure and its panels, in one line."""
    titles = [
        figure.get_suptitle(),
        *(ax.get_title(loc) for ax in figure.axes for loc in ("left", "center", "right")),
    ]
    return " ".join(filter(None, titles)).replace("\n", " ")


@functools.cache
def texts():
    """Captions and titles of all figures drawn from committed measurements -> place, [(claim,
    run)], text, its first sentence."""
    all_texts = []
    for page, read, caption, titles in drawn():
        all_texts += [
            (page, read, said, re.split(r"(?<!\.)\. ", said)[0])
            for said in (caption, " ".join(titles))
            if said
        ]
    for claim in load_claims():
        for run in (
            run
            for run, row in rows_by_claim()[claim.id].items()
            if (run_folder(run) / f"{claim.id}.nc.gz").exists()
        ):
            said = titles_in(claim.figure(data(claim.id, run)))
            pyplot.close("all")
            all_texts.append((f"figure of {claim.id}, {run}", [(claim.id, run)], said, said))
    return all_texts


def findings():
    """The lines of findings.txt -> claim, condition, words, pattern of the words; long words
    first, since some are part of others."""
    lines = (ROOT / "tests" / "findings.txt").read_text(encoding="utf-8").splitlines()
    parts = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    parts.sort(key=lambda part: len(part[2]), reverse=True)
    return [
        (id, condition, words, re.escape(words).replace(r"\#", r"[-+]?[\w.]+"))
        for id, condition, words in parts
    ]


def near(value, number, by=None):
    """Whether a value is the number, to rounding."""
    return abs(value - number) <= (by or half_a_digit(f"{number:g}"))


def slopes(data):
    """Exponents of N50 between neighboring shares, the tail included."""
    whole = with_tail(data).sortby("alpha", ascending=False)
    return local_slopes(whole.alpha.values, over_seeds(whole.n50).transpose(..., "alpha").values)


def border_exponent(data, attention, low, high):
    """Exponent of the border of the phase diagram between two shares, in units of 1/80."""
    alpha = data.alpha.sel(attention=attention).values
    return border_slope(alpha, border(data, attention), low, high).value


def is_so(condition, id, run):
    """Whether what a caption or title says is so in a committed measurement."""
    verdict = rows_by_claim()[id][run]["verdict"]
    allowed = {"yes": (HOLDS, CAVEAT), "no": (AGAINST, REFUTED), "open": (INCONCLUSIVE,)}
    if condition.startswith("- ") or condition in allowed:
        return verdict in allowed.get(condition, VERDICTS)
    d = data(id, run)
    names = {
        "d": d,
        "end": d.isel(step=-1) if "step" in d.dims else d,
        "of": lambda id: data(id, run),
        "verdict": verdict,
    }
    tools = {
        "np": np,
        "near": near,
        "slopes": slopes,
        "border_exponent": border_exponent,
        "points_ahead": points_ahead,
        "scatter_by_chance": scatter_by_chance,
        "with_runs": with_runs,
    }
    return bool(np.all(eval(condition, names | tools)))


def test_captions_and_titles_say_what_the_evidence_says():
    """Each number rounds one of the evidence, and each finding is so in the measurement that the
    figure draws."""
    faults = []
    used = set()
    for where, read, text, first in texts():
        known = set().union(
            *(told()[id] for id, _ in read),
            *({value for _, value in numbers(RUNS[run])} for _, run in read),
        )
        # A title of a claim's figure need not state a finding; a caption, and a page's title, does.
        met, rest = where.startswith("figure of"), text
        for id, condition, words, pattern in findings():
            pairs = [pair for pair in read if pair[0] == id]
            if not pairs or not re.search(pattern, text):
                continue
            used.add((id, words))
            met |= bool(re.search(pattern, first))
            faults += [
                f"{where}: not so for {id}, {run}: {words}"
                for _, run in pairs
                if not is_so(condition, id, run)
            ]
            named = {value * times for _, value in numbers(condition) for times in (1, 100)}
            if "#" in words or not strange(words, known | named) or condition.startswith("- "):
                rest = re.sub(pattern, "", rest)
        faults += [f"{where}: no line of findings.txt for: {first}"] * (not met)
        faults += [f"{where}: {word} is not in the evidence" for word in strange(rest, known)]
    faults += [
        f"findings.txt: nothing says so of {id}: {words}"
        for id, _, words, _ in findings()
        if (id, words) not in used
    ]
    assert not faults, "\n".join(faults)
