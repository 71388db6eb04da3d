"""What every chapter promises: marks on statements, a figure only once, no name, claim or page that
nobody meets."""

import ast
import re
from collections import Counter, defaultdict
from itertools import takewhile

import pytest
from common import CHAPTERS, NOTEBOOKS, cells_in, outputs

from vit_theory.ledger.claims import KINDS, load_claims

MARK = re.compile(r"^> \*\*(Quoted|Paraphrased|Recalled|Derived here)\b", re.MULTILINE)
# A page that quotes the paper shows the words that a paraphrase shortens.
SERVES = {kind: {kind.capitalize()} for kind in KINDS} | {"paraphrased": {"Quoted", "Paraphrased"}}


def text(name, kind):
    return [cell.source for cell in cells_in(name) if cell.cell_type == kind]


def prose(name):
    return "\n".join(text(name, "markdown"))


def marks(name):
    return Counter(MARK.findall(prose(name)))


def pages_of(id):
    """The question pages that show the verdict of a claim; an essay may show it too."""
    shown = [name for name in NOTEBOOKS if f'Card("{id}")' in "\n".join(text(name, "code"))]
    return [
        name
        for name in shown
        if name.split("/")[0] in CHAPTERS and not name.endswith("index.ipynb")
    ]


@pytest.mark.parametrize("claim", load_claims(), ids=lambda claim: claim.id)
def test_a_claim_stands_on_one_page_beside_its_statement(claim):
    (page,) = pages_of(claim.id)
    assert SERVES[claim.kind] & set(marks(page)), (
        f"{page} shows {claim.id}, {claim.kind}, but marks {dict(marks(page))}"
    )


def sections(name):
    """The headings of a notebook, each with what stands under it, up to the next heading of its
    level or above."""
    pieces = re.split(r"^(#+ .*)$", prose(name), flags=re.MULTILINE)
    sections_of_page = [
        (heading, len(heading.split()[0]), body)
        for heading, body in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    for number, (heading, level, body) in enumerate(sections_of_page):
        below = takewhile(
            lambda section, level=level: section[1] > level, sections_of_page[number + 1 :]
        )
        yield heading, "\n".join([body, *(text_below for _, _, text_below in below)])


def test_marks():
    """Four marks, all in use; what a heading names, such as Theorem 4.1, is stated in its section,
    in a mark with that name."""
    total = sum((marks(name) for name in NOTEBOOKS), Counter())
    assert (
        set(total) == {"Quoted", "Paraphrased", "Recalled", "Derived here"}
        and sum(total.values()) >= 100
    ), total
    statement = re.compile(
        r"\b(?:Theorems?|Lemma|Proposition|Corollary|Definition|Assumption) ([A-Z\d.]+)(?: "
        r"and ([\d.]+))?"
    )
    named = [
        (name, *section, number)
        for name in NOTEBOOKS
        if name.split("/")[0] in CHAPTERS
        for section in sections(name)
        for numbers in statement.findall(section[0])
        for number in filter(None, numbers)
    ]
    bare = [
        f"{name}: {heading}: {number}"
        for name, heading, body, number in named
        if not re.search(
            MARK.pattern + rf"\S* \([^)]*\b{re.escape(number)}[,)]", body, re.MULTILINE
        )
    ]
    assert len(named) >= 10 and not bare, bare


def test_glossary():
    """Every link into the glossary meets a term, every term is linked from a chapter, and an index
    links all terms it uses."""
    cell = next(
        source
        for source in text("00_notation.ipynb", "markdown")
        if source.startswith("## Glossary")
    )
    terms = {
        name.replace(" ", "-"): words
        for name, words in re.findall(r"^#### (.+)\n\n(.+)", cell, re.MULTILINE)
    }
    # The same anchor in JupyterLab, which keeps the words as they are, and on the site, which makes
    # them small and plain.
    assert len(terms) >= 40 and all(re.fullmatch("[a-z-]+", term) for term in terms), list(terms)
    assert len(terms) == cell.count("\n#### ") and all(
        words.endswith(".") for words in terms.values()
    )
    linked = {name: re.findall(r"00_notation\.ipynb#([^)]*)\)", prose(name)) for name in NOTEBOOKS}
    twice = {name: pages for name, pages in linked.items() if len(set(pages)) < len(pages)}
    assert not twice, f"linked at the first use only: {twice}"
    assert set().union(*linked.values()) == set(terms), set().union(*linked.values()) ^ set(terms)
    for page in (f"{chapter}/index.ipynb" for chapter in CHAPTERS):
        words = re.sub(r"\[[^\]]*\]\([^)]*\)", "", prose(page))  # without its links
        used = {
            term
            for term in terms
            if re.search(rf"\b{term.replace('-', ' ')}s?\b", words, re.IGNORECASE)
        }
        assert used <= set(linked[page]), (
            f"{page} uses but does not link {used - set(linked[page])}"
        )


def test_no_figure_is_drawn_twice():
    drawn = defaultdict(list)
    for name in NOTEBOOKS:
        for picture in (
            picture
            for cell in cells_in(name)
            for picture in outputs(cell, "image/png", "image/svg+xml")
        ):
            drawn[picture].append(name)
    assert not [pages for pages in drawn.values() if len(pages) > 1]


def exported(source):
    """Names that a cell defines at its top level and exports."""
    if not re.search(r"^#\| *export\b(?!i)", source, re.MULTILINE):
        return set()
    plain = "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!")))
    names = set()
    for node in ast.parse(plain).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_") and not name.isupper()}


def words(name):
    return sum(len(source.split()) for source in text(name, "markdown"))


@pytest.mark.parametrize("chapter", CHAPTERS[:3])
def test_an_essay_is_read_in_forty_minutes(chapter):
    name = f"{chapter}/index.ipynb"
    pictures = sum(len(outputs(cell, "image/png")) for cell in cells_in(name))
    assert words(name) <= 4500 and pictures <= 8


def test_all_pages_are_short():
    assert sum(map(words, NOTEBOOKS)) <= 66_000


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_directive_begins_its_cell(name):
    """Further down it is a comment: what it should export stays out of `__all__`."""
    for source in text(name, "code"):
        lines = source.splitlines()
        first = [line.startswith("#|") for line in lines]
        assert sum(first) == (first.index(False) if False in first else len(first)), source[:200]


def test_every_public_name_is_met():
    """What a module exports is used outside of its own cell: on its page, where a reader sees it
    run, or on a later one."""
    cells = [(name, source) for name in NOTEBOOKS for source in text(name, "code")]
    words = [set(re.findall(r"\w+", source)) for _, source in cells]
    met = Counter(word for of_cell in words for word in of_cell)
    assert not [
        f"{name}: {public}"
        for name, source in cells
        for public in exported(source)
        if met[public] < 2
    ]


def test_exercises_have_answers_that_print():
    """Each exercise is followed by a folded cell that asserts its answer and shows it; each essay
    has five."""
    for name in NOTEBOOKS:
        cells = cells_in(name)
        exercises = 0
        for number, cell in enumerate(cells):
            if cell.cell_type == "markdown" and (
                asked := cell.source.count("**Exercise ") + cell.source.count("**Exercise.")
            ):
                exercises += asked
                (answer,) = [c for c in cells[number + 1 : number + 2] if c.cell_type == "code"]
                tested = re.search(r"\bassert\b|\btest_\w+\(|ExceptionExpected", answer.source)
                assert asked == 1 and tested and "code-fold" in answer.source and answer.outputs, (
                    f"{name}: {cell.source[:80]}"
                )
                assert answer.metadata.get("jupyter", {}).get("outputs_hidden"), (
                    f"{name}: {cell.source[:80]}"
                )
        assert exercises == 5 or name not in [
            f"{chapter}/index.ipynb" for chapter in CHAPTERS[:3]
        ], name


SET_UP = re.compile(
    r"^> \*\*\[Set-up\]\(\.\./00_notation\.ipynb\)\.\*\* (.+)$|^## Set-up\n", re.MULTILINE
)


def test_pages_with_symbols_have_a_set_up():
    """A page of a chapter that writes formulas says in a box what its symbols mean; the box leads
    to the reference."""
    bare = []
    for name in NOTEBOOKS:
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$\n]*[A-Za-z][^$\n]*\$", prose(name), re.DOTALL)
        if name.split("/")[0] in CHAPTERS and formulas and not SET_UP.search(prose(name)):
            bare.append(name)
    assert not bare, bare
    boxes = {
        name: found[1] for name in NOTEBOOKS if (found := SET_UP.search(prose(name))) and found[1]
    }
    assert len(boxes) >= 50 and not [
        name for name, box in boxes.items() if len(box.split()) > 110
    ], boxes


def test_terms():
    """One word for one thing: a claim is no row, seeds come in sets, a fault is injected, and dead
    verdicts are gone."""
    words = "trainings|fresh triples?|sabotages?|not shown|hangs? on|what we meet|judges?|judged"
    private = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    terms = {
        name: private.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(name))) for name in NOTEBOOKS
    }
    assert not {name: said for name, said in terms.items() if said}
    for name in NOTEBOOKS:
        said = [
            words
            for cell in cells_in(name)
            for words in outputs(cell, "text/markdown", "text/html")
        ]
        assert not [words for words in said if "not shown here" in words], name
