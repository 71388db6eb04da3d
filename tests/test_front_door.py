"""What somebody meets first: two commands that exist, pictures and links that lead somewhere, numbers that the evidence has."""

import ast
import importlib.util
import re
from collections import defaultdict
from pathlib import Path

import nbformat
import pytest

from vit_theory.figures import style, to_svg
from vit_theory.ledger.evidence import RUNS, Card, answers, committed, standing

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(text):
    """The shell commands of each block of a page, without comments."""
    found = re.findall(r"```bash\n(.*?)```", text, re.S)
    return [[line.partition("#")[0].strip() for line in block.splitlines()] for block in found]


def test_the_two_commands_come_first():
    commands = blocks(README)[0]
    assert commands == ["make reproduce", "make test"], f"the README begins with the two commands, not with {commands}"
    assert README.index("make reproduce") < README.index("\n## ", README.index("## Two commands") + 1)
    above = README[: README.index("## The parts")]
    assert all(f"]({place}" in above for place in ("nbs/pictures/A.svg", "nbs/pictures/B.svg", "nbs/pictures/C.svg"))
    assert above.count("https://arxiv.org/abs/") == 3, "each card links to its paper"


def test_the_front_page_is_short():
    """At most 500 words beside the cards, the two commands and what is folded; the targets of links do not count."""
    parts = re.split(r"^## ", re.sub(r"<details>.*?</details>", "", README, flags=re.S), flags=re.M)
    kept = [part for part in parts if not part.startswith(("Two commands", "Three papers"))]
    assert len(kept) == len(parts) - 2
    words = [word for word in re.sub(r"\]\([^)]*\)", "]", "\n".join(kept)).split() if word.strip("|-")]
    assert len(words) <= 500, len(words)


def test_statements_have_their_answers():
    """The papers' statements stand in one table, ours in a second that is folded; each leads to its page."""
    shown, ours = README.split("<details><summary>Statements of our own")
    head = "| paper | statement | our answer | evidence | page |"
    assert shown.count(head) == 1 and ours.partition("</details>")[0].count(head) == 1 and README.count(head) == 2
    kinds = {row["id"]: row["kind"] == "derived here" for row in standing()}
    for text, own in ((shown, False), (ours.partition("</details>")[0], True)):
        linked = re.findall(r"\[`([ABC]-[\w.-]+)`\]\((nbs/[\w/]+\.ipynb)\) \|$", text, re.M)
        assert len(linked) >= 12 and all(kinds[id] == own for id, _ in linked)
        assert not [id for id, page in linked if f'Card(\\"{id}\\")' not in (ROOT / page).read_text(encoding="utf-8")]


def test_routes_and_examples():
    """Three routes; each part of the package has one example, folded."""
    for minutes in (5, 40, 120):
        assert len(re.findall(rf"^\| {minutes} \|", README, re.M)) == 1
    parts = README[README.index("## The parts") :]
    folded = re.findall(r"<details>.*?</details>", parts, re.S)
    assert len(folded) == 3 and all("```python" in each for each in folded)
    assert parts.count("```python") == sum(each.count("```python") for each in folded)


def test_pictures_of_the_cards_are_drawn_from_the_evidence():
    """The pictures show the measurements whose numbers the cards say."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    with style():
        made = {name: to_svg(draw()) + "\n" for name, draw in pictures.CARDS.items()}
    stale = [name for name, text in made.items() if (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8") != text]
    assert not stale, f"drawn from other measurements (run: python tools/pictures.py): {stale}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_command_has_its_target(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`| {4})make ([a-z-]+)\b", text, re.M))
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.M))
    assert named and named <= targets, f"{page} names targets that the Makefile lacks: {sorted(named - targets)}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_pictures_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    inner = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:|#", target)]
    dead = [target for target in inner if not (ROOT / target.partition("#")[0]).exists()]
    assert not dead, f"{page} links to what is not there: {dead}"
    if page == "README.md":
        assert inner


def test_the_plain_lines_are_those_of_the_makefile():
    """Without make: the same installation, the same ledger."""
    plain = blocks(README)[1]
    for line in plain:
        assert line.startswith((".venv/bin/", "python3 -m venv")), line
    for needed in ("-e . -c constraints.txt", "-e '.[dev]' -c constraints.txt", "--out claims"):
        assert needed in MAKEFILE and any(needed in line for line in plain), needed


def test_ci_runs_the_readme():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script and "make slow" in script


@pytest.mark.parametrize("name", ["index", "ledger/10_verdicts"])
def test_generated_text_is_what_the_evidence_says(name):
    """The tables and numbers that the front pages show are those of the committed measurements."""
    names, checked = {}, 0
    for cell in nbformat.read(ROOT / "nbs" / f"{name}.ipynb", as_version=4).cells:
        if cell.source.startswith("#| hide"):
            exec(cell.source, names)
        if cell.source.startswith("#| echo: false") and "text/markdown" in cell.outputs[0]["data"]:
            *before, last = ast.parse(cell.source).body
            exec(compile(ast.Module(before, []), name, "exec"), names)
            made = eval(compile(ast.Expression(last.value), name, "eval"), names)
            stored = cell.outputs[0]["data"]["text/markdown"]
            assert stored == made.data, f"nbs/{name}.ipynb is stale: python tools/notebooks.py run nbs/{name}.ipynb"
            checked += 1
    assert checked


def test_cards_say_what_the_evidence_says():
    """Where a notebook ends a cell with Card("ID"), the stored card is the one of today's evidence."""
    stale = []
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and (found := re.search(r"(?m)^Card\(\"([^\"]+)\"\)\s*\Z", cell.source)):
                shown = [output["data"].get("text/markdown") for output in cell.outputs if "data" in output]
                stale += [f"{path.relative_to(ROOT)}: {found[1]}"] if Card(found[1])._repr_markdown_() not in shown else []
    assert not stale, "run these notebooks again (python tools/notebooks.py run ...): " + ", ".join(stale)


def test_every_answer_states_the_verdict_of_the_largest_run():
    """The sentences that README, essays, cards and claim pages share are written by hand: they agree with what is judged."""
    said = answers()
    wrong = [f"{row['id']}: {said[row['id']]['verdict']}, the largest run says {row['verdict']}" for row in standing()
             if said[row["id"]]["verdict"] != row["verdict"]]  # fmt: skip
    assert not wrong, "; ".join(wrong)
    assert set(said) == {row["id"] for row in standing()}
    for id, answer in said.items():
        assert answer["answer"].endswith(".") and len(answer["answer"].split()) <= 40, id
        assert 1 < len(answer["title"].split()) <= 10, id


# Numbers of an answer that stand in no text of its rows: sizes of the experiment, and values read off the figure's data.
BESIDE = {
    "A-attention-ceiling": ".77", "A-attention-eta": ".025", "A-attention-rate": ".15", "A-attention-sparse": ".31",
    "A-images-mass": ".25", "A-initial-border": "4.0", "A-iterations-alpha": ".001 120", "A-limit": "50 12 8",
    "A-minibatches": ".16", "A-no-attention": "43", "A-noisy-tokens": ".099", "A-sample-complexity": "1.09 8 .125",
    "A-sparsification": "20 16", "B-figure-2-vit": ".20", "B-images-association": ".27", "B-long-training": "4000",
    "B-q-ablation": "36", "B-scatter-response": "64000", "B-sigma-A-ablation": ".001", "B-theorem-3.1": ".129",
    "B-theorem-4.1-sample": "20000", "B-theorem-4.2": "25", "B-together-window": "80",
    "C-corollary-3": "5 7", "C-corollary-4": "4e-14", "C-dilation": "8",
    "C-finite-logits": "16 0.24", "C-head-width": "4e-16", "C-stride": "12 26", "C-table-1": "3200",
}  # fmt: skip


def numbers(text):
    """The numbers of a text, as written -> (word, value)."""
    plain = text.replace(",", "").replace("\N{MINUS SIGN}", "-")
    words = re.findall(r"(?<![\w.^/])-?\d*\.?\d+(?:e-?\d+)?(?![\w^²])|(?<=/)\d+", plain)
    return [(word, abs(float(word))) for word in words]


def half_a_digit(word):
    """How far a number may be from the one that it rounds."""
    base, _, exponent = word.partition("e")
    return 0.51 * 10.0 ** (int(exponent or 0) - len(base.partition(".")[2]))


def test_numbers_of_an_answer_are_those_of_the_evidence():
    """Each number that an answer says rounds one that some committed run of its claim measured, asks for or states."""
    told = defaultdict(list)
    for row in (row for run in RUNS for row in committed(run)):
        quantities = [value for quantity in row["quantities"] for value in quantity.values()]
        parts = [row[name] for name in ("measured", "note", "statement", "criterion", "source")]
        told[row["id"]] += numbers(" ".join(map(str, [*parts, *quantities])))
    wrong = {}
    for id, said in answers().items():
        known = [1, 2, 3, *(value * times for _, value in told[id] for times in (1, 100))]  # 3 seeds; shares as percentages
        found = [word for word, value in numbers(said["answer"]) if all(abs(value - each) > half_a_digit(word) for each in known)]
        if strange := set(found) ^ set(BESIDE.get(id, "").split()):
            wrong[id] = strange
    assert not wrong, wrong
