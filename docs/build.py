"""Build the site from the stored notebooks:  python docs/build.py [--out _docs]

Notebooks go through nbdev's processors (directives, hidden cells), become MyST notebooks beside
pages for chapters, API and results, and Sphinx makes HTML of them. All of it happens in a temporary
folder: no notebook runs and only the site is left.
"""

import ast
import csv
import itertools
import json
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import claim_pages
import click
import drawings
import nbformat
from api import Package
from claim_pages import badge
from finish import finish
from nbdev import processors
from nbdev.process import NBProcessor
from sphinx.cmd.build import build_main

from vit_theory.figures import INK, in_ink
from vit_theory.ledger.report import TEMPLATES
from vit_theory.ledger.rules import LOOKS

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
from notebooks import answers, folded  # noqa: E402

CHAPTERS = {
    "": "Foundations",
    "selection": "A Selection",
    "association": "B Association",
    "convolution": "C Convolution",
    "models": "Models",
    "images": "Images",
    "together": "Together",
    "ledger": "The ledger",
    "explore": "Explore",
}
# notebooks that stand under Results: the list of all rows, and the map
RESULTS = (
    "ledger/10_verdicts",
    "ledger/11_coverage",
)
SOUGHT = {  # a page that these words are to find first
    "convolution/08_heads": ("how many heads",),
    "convolution/index": ("convert convolution to attention",),
    "association/index": ("patch association",),
    "selection/06_sample_complexity": ("sample complexity",),
    "images/03_two_phase": ("two-phase", "two phase"),
    "explore/05_vit": ("my own model", "own model", "DINOv2"),
}
# home's title: a question, where README has the project's name; and what stands below its first
# sentence
FRONT = "What does attention compute, find and learn?"
HOME = "{.buttons}\n[Explore](/explore/index.ipynb) [Read](/essays.md) [Install](/install.md)\n\n"
# the picture that README has where the site has the explorer itself
STILL = re.compile(r"!\[[^\]]*\]\(pictures/heads\.svg\)")
ESSAYS = ("selection", "association", "convolution", "images", "together")
# pages that are about what the code does, not about the code: it is one switch away, as on the
# pages of engines, which a reader skips at first
WITHOUT_CODE = (
    "explore/",
    "ledger/",
    "04_real_images",
    "models/10_page",
    "models/16_trained",
)
CAPTION = "**Figure.**"
SHELL = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"language_info": {"name": "python", "pygments_lexer": "ipython3"}},
}
WORDS = {word: verdict for verdict, (short, *_) in LOOKS.items() for word in (verdict, short)}
# Quarto's options of a cell (`#| echo: false`) as MyST-NB has them.
TAGS = {
    "echo: false": "remove-input",
    "output: false": "remove-output",
    "include: false": "remove-cell",
    "code-fold: true": "hide-input",
}


def shown(path):
    """The cells of a notebook that nbdev shows, exported ones among them, as (cell, its directive
    of export or "")."""
    names = (
        "populate_language strip_ansi hide_line filter_stream_ rm_header_dash rm_export "
        "clean_magics hide_"
    ).split()
    processor = NBProcessor(path, procs=[getattr(processors, name) for name in names])
    for number, cell in enumerate(processor.nb.cells):
        cell.place = number
        cell.exported = next(
            (name for name in ("export", "exporti") if name in cell.directives_), ""
        )
        if cell.exported:  # the reader is to see the code where it is explained
            cell.directives_["exports"] = cell.directives_.pop(cell.exported)
    processor.process()
    stored = nbformat.read(path, as_version=4).cells
    for cell in processor.nb.cells:
        result = stored[cell.place]
        result.source = cell.source
        yield result, cell.exported


def held(source):
    """What a folded cell holds, in a word or two."""
    names = re.findall(r"^(?:def|class) (\w+)", source, flags=re.M)
    if names:
        kind = "plot" if all(re.match("plot_|draw_", name) for name in names) else "code"
        return f"{kind}: {', '.join(names[:3])}{', ...' * (len(names) > 3)}"
    if "Claim(" in source:
        return "the claim, as rules"
    if re.search(r"^(assert |test_)", source, flags=re.M):
        return "checks"
    if re.match(r"(import|from) ", source):
        return "imports"
    return "plot" if re.search(r"\b(plot|draw)_|plt\.", source) else "settings"


PRESENTING = re.compile(
    r"Card|Verdicts|Moving|Markdown|(?:plot|draw|show|measured|committed)(?:_\w+)?"
)


def presenting(source):
    """Whether a cell only puts on the page what was measured: a card, or a figure of committed
    data."""

    def calls(node):
        value = getattr(node, "value", None)
        name = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
        return isinstance(node, ast.Expr | ast.Assign) and PRESENTING.fullmatch(name) is not None

    try:
        body = [
            node
            for node in ast.parse(source).body
            if not isinstance(node, ast.Import | ast.ImportFrom)
        ]
    except SyntaxError:  # a magic command
        return False
    return (
        bool(body)
        and all(map(calls, body))
        and re.search(r"\b(?:Card|Verdicts)\(|measured\(|\bMoving\(", source) is not None
    )


MARKS = {
    "Quoted": "quoted",
    "Paraphrased": "quoted",
    "Recalled": "recalled",
    "Derived here": "derived",
    "Set-up": "set-up",
}


def marked(text):
    """Markdown whose boxes say what kind they are: the paper's words, recalled ones, our own, and
    the set-up."""
    kinds = "|".join(MARKS)
    boxes = re.compile(rf"(^|\n\n)(?=> \*\*\[?({kinds})\b)")
    return boxes.sub(lambda box: f"{box[1]}{{.box .box-{MARKS[box[2]]}}}\n", text)


def inked(text):
    """A picture of the README without its white ground, in the page's ink."""
    if "prefers-color-scheme" in text:
        return text
    text = re.sub(r"\b(fill|stroke): #([0-9a-f]{2})\2\2(?![0-9a-f])", in_ink, text)
    return text.replace("<defs>", f"{INK}{drawings.WORDS}<defs>", 1)


def finding(cell, after, package, otherwise):
    """What a picture shows, in words for those who do not see it: the first sentence of its
    caption, or what draws it says."""
    if caption := re.match(r"\*\*Figure\.\*\*\s+(.+?\.)(?=\s|$)", after, flags=re.S):
        # links, emphasis, formulas: only their words
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", caption[1])
        return " ".join(re.sub(r"[`${}\\]|\*\*|(?<!\w)\*(?=\w)", "", text).split())
    for name in reversed(re.findall(r"\b((?:plot|draw|show)_\w+)\(", cell.source)):
        for module in package.found.get(name, []):
            return (
                ast.get_docstring(package.modules[module].defined[name])
                .partition("\n")[0]
                .partition(" ->")[0]
            )
    return otherwise


SWITCH = '<button class="code-switch" type="button" aria-pressed="false">Show code</button>'


def live(_):
    """The convolution explorer, as Markdown."""
    from vit_theory.explore import convolution_explorer

    return (
        f"``````{{raw}} html\n{convolution_explorer()._repr_mimebundle_()[0]['text/html']}\n``````"
    )


def elsewhere(docname):
    """Links to a notebook where it lives: as soon as settings.ini has the repository's address."""
    if not (repository := claim_pages.settings("git_url").rstrip("/")):
        return
    path = f"{claim_pages.settings('branch')}/nbs/{docname}.ipynb"
    yield f"[Edit this page]({repository}/edit/{path})"
    if "github.com/" in repository:
        owner = repository.partition("github.com/")[2]
        yield f"[Open in Colab](https://colab.research.google.com/github/{owner}/blob/{path})"


def home_order(cells):
    """Home's sections as a visitor needs them: how it is installed comes after what is found."""
    starts = [place for place, cell in enumerate(cells) if re.match("## ", cell.source, flags=re.M)]
    sections = [cells[a:b] for a, b in itertools.pairwise([*starts, len(cells)])]
    first = next(each for each in sections if each[0].source.startswith("## Two commands"))
    sections.remove(first)
    after = next(k for k, each in enumerate(sections) if each[0].source.startswith("## Where to"))
    sections.insert(after, first)
    return [*cells[: starts[0]], *itertools.chain(*sections)]


def caption(text, number):
    return f"{{.caption}}\n**Figure {number}.**{text.removeprefix(CAPTION)}"


def without_captions(cell):
    """The captions that a cell writes itself; they leave its outputs."""
    texts = [output.get("data", {}).get("text/markdown", "") for output in cell.outputs]
    written = [text.startswith(CAPTION) for text in texts]
    cell.outputs = list(itertools.compress(cell.outputs, [not its for its in written]))
    return itertools.compress(texts, written)


def with_drawings(cell, folder, name, alt):
    """The figures of a cell become drawings, whose files go into the folder."""
    for place, output in enumerate(cell.outputs):
        stored = output.get("data", {}).get(drawings.KIND)
        if stored is None:
            continue
        drawing = drawings.unpacked(stored)
        drawing.write(folder, f"{name}-{place}")
        shown = drawing.markdown(f"/{folder.name}/{name}-{place}", alt)
        output["data"] = {"text/markdown": shown}


def convert(path, docname, package, folder):
    """A notebook as Sphinx is to see it -> (notebook, title, one-line description); the drawings of
    its figures go into the folder."""
    modules = package.by_notebook[docname]
    cells = []
    title = docname
    lead = ""
    section = ""
    every = list(shown(path))
    figures = 0
    for number, (cell, exported) in enumerate(every):
        if cell.cell_type == "markdown":
            section = (re.findall(r"^#+ (.+)$", cell.source, flags=re.M) or [section])[-1]
            if not cells and (
                head := re.match(r"# (.+?)\n+> (.+?)(?:\n\n|\Z)", cell.source, flags=re.S)
            ):
                title = FRONT if docname == "index" else head[1]
                lead = " ".join(head[2].replace("\n>", "\n").split())
                found = "".join(
                    f"```{{index}} ! {words}\n```\n" for words in SOUGHT.get(docname, ())
                )
                links = [
                    f"{{download}}`Download the notebook </_notebooks/{docname}.ipynb>`",
                    *elsewhere(docname),
                    SWITCH,
                ]
                download = HOME if docname == "index" else f"{{.links}}\n{' '.join(links)}\n\n"
                cell.source = STILL.sub(live, cell.source) if docname == "index" else cell.source
                cell.source = (
                    "# "
                    f"{title}\n\n{found}{{.lead}}\n{lead}\n\n{download}{cell.source[head.end() :]}"
                )
            cell.source = re.sub(
                r"\]\(\.\./(results/|CONTRIBUTING|CITATION|LICENSE)", r"](/\1", cell.source
            )
            if cell.source.startswith(CAPTION):
                figures += 1
                cell.source = caption(cell.source, figures)
            cell.source = marked(cell.source)
            cell.source = package.linkify(
                re.sub(r"(\]\((?!\w+:)[^)#\s]*)\.html\b", r"\1.ipynb", cell.source), docname
            )
        elif cell.cell_type == "code":
            answer = number > 0 and answers(every[number - 1][0], cell)
            options = re.findall(r"^#\|\s*(.*?)\s*$", cell.source, flags=re.M)
            cell.metadata["tags"] = [TAGS[option] for option in options if option in TAGS]
            cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M).strip()
            if "/" in docname and (
                card := re.search(r'^Card\("([\w.-]+)"\)$', cell.source, flags=re.M)
            ):
                label = f"card-{card[1]}"
                package.claims.setdefault(card[1], (label, title, section))
                cells.append(nbformat.v4.new_markdown_cell(f"({label})="))
            skipped = (
                folded(cell.source, exported)
                or (exported and (docname.startswith(WITHOUT_CODE) or title.startswith("Engine")))
                or presenting(cell.source)
                or cell.source.startswith("_all_ = ")
            )
            if answer or (not cell.metadata["tags"] and skipped):
                cell.metadata["tags"] = ["hide-cell" if answer else "hide-input"]
            after = every[number + 1][0].source if number + 1 < len(every) else ""
            alt = finding(cell, after, package, f"Picture for {section or title}")
            words = "the answer" if answer else held(cell.source)
            prompt = dict.fromkeys(("code_prompt_show", "code_prompt_hide"), words)
            cell.metadata["mystnb"] = {"image": {"alt": alt}, **prompt}
            # a widget is alive in a notebook only; here its stored picture or text stands for it
            for output in cell.outputs:
                output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
                if text := output.get("data", {}).get("text/markdown"):
                    verdict = re.compile(
                        rf"(^> |\| )(?:\*\*|\S )({'|'.join(WORDS)})(?:\*\*)?(?= ·|;| \|)",
                        flags=re.I | re.M,
                    )
                    text = verdict.sub(
                        lambda found: f"{found[1]}{badge(WORDS[found[2].lower()], found[2])}", text
                    )
                    output["data"]["text/markdown"] = package.linkify(text, docname)
                if text := output.get("data", {}).get("text/html"):
                    text = re.sub(r'(href="[\w/.]+)\.ipynb"', r'\1.html"', text)
                    output["data"]["text/html"] = text
            with_drawings(cell, folder, f"{docname.replace('/', '-')}-{number}", alt)
            if exported and modules:
                names = re.findall(
                    r"^(?:def|class) (\w+)|^(\w+)(?:: [^=]+)? = ", cell.source, flags=re.M
                )
                names = list(map("".join, names))
                targets = [
                    f"({module.label(name)})="
                    for module in modules
                    for name in names
                    if name in module.public
                ]
                if targets:
                    cells.append(nbformat.v4.new_markdown_cell("\n".join(targets)))
        cells.append(cell)
        if cell.cell_type == "code":
            for text in without_captions(cell):
                figures += 1
                words = package.linkify(caption(text, figures), docname)
                cells.append(nbformat.v4.new_markdown_cell(words))
    if docname == "index":
        cells = home_order(cells)
    if not any("hide-input" in cell.metadata.get("tags", ()) for cell in cells):
        for cell in cells:  # no code to be shown
            cell.source = cell.source.replace(f" {SWITCH}", "", 1)
    return {**SHELL, "cells": cells}, title, lead


def notebook(*texts):
    """A notebook of prose."""
    return {**SHELL, "cells": [nbformat.v4.new_markdown_cell(text) for text in texts]}


def toctree(names, **options):
    lines = "".join(f":{key}: {value}\n" for key, value in options.items())
    return f"```{{toctree}}\n{lines}\n" + "\n".join(names) + "\n```\n"


def listing(pages):
    """Links with their one-line descriptions, in which links, relative to their own page, are only
    words."""
    link = re.compile(r"\[([^\]]*)\]\([^)]*\)")
    lines = [f"- [{title}](/{name}) — " + link.sub(r"\1", lead) for name, title, lead in pages]
    return "\n".join(lines) + "\n"


def long_run(path):
    """The table of a run that takes longer than a notebook may, with what made it -> (title,
    page)."""
    title = path.stem.replace("_", " ").capitalize()
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > 1000:  # too long to be read
        counts = Counter(row["outcome"] for row in csv.DictReader(lines)).most_common()
        listed = "".join(f"| {outcome} | {count} |\n" for outcome, count in counts)
        return (
            title,
            f"# {title}\n\n| outcome | lines |\n|---|---|\n{listed}\n{{download}}`All lines "
            f"</_tables/{path.name}>`\n",
        )
    text = (
        f"# {title}\n\n```{{csv-table}}\n:header-rows: "
        f"1\n\n{path.read_text(encoding='utf-8')}\n```\n"
    )
    if (source := path.with_suffix(".json")).exists():
        text += f"\nHow it was made:\n\n```json\n{source.read_text(encoding='utf-8')}\n```\n"
    return title, text


def write_source(source):
    """All pages of the site, in `source`."""
    package = Package(ROOT, "vit_theory")
    pages = defaultdict(list)  # of a chapter
    written = {}  # what gets a list of other pages below
    heads = {}  # titles

    def write(name, text):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        docname = path.relative_to(ROOT / "nbs").with_suffix("").as_posix()
        if re.search(r"(^|/)[._]", docname):
            continue
        page, title, lead = convert(path, docname, package, source / "_drawings")
        original = source / "_notebooks" / f"{docname}.ipynb"
        original.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, original)
        chapter, _, name = docname.rpartition("/")
        heads[docname] = title, lead
        if name == "index" or docname in RESULTS:
            written[docname] = page
        else:
            pages[chapter].append((docname, title, lead))
            write(f"{docname}.ipynb", json.dumps(page))
    for chapter in filter(None, CHAPTERS):
        index = written[f"{chapter}/index"]
        listed = [f"/{name}" for name, _, _ in pages[chapter]]
        index["cells"] += notebook(
            "## The notebooks\n\n" + listing(pages[chapter]), toctree(listed, hidden="")
        )["cells"]
        write(f"{chapter}/index.ipynb", json.dumps(index))
    use = [page for page in pages[""] if page[0] == "use"]
    reference = [page for page in pages[""] if page[0] != "use"]
    essays = [(f"{chapter}/index", *heads[f"{chapter}/index"]) for chapter in ESSAYS]
    lead = "{.lead}\nA paper in forty minutes each, then one model for the three and real images."
    below = (
        "## Reference\n\nWhat several essays stand on: notation, attention, statistics, figures."
    )
    listed = toctree([f"/{name}" for name, _, _ in [*essays, *reference]], hidden="")
    write(
        "essays.md",
        "\n\n".join(["# Essays", lead, listing(essays), below, listing(reference), listed]),
    )
    named = [
        "install",
        *(name for name, _, _ in use),
        "models/index",
        "ledger/14_own_paper",
        "about",
    ]
    guides = [f"/{name}" for name in named]
    for name in ("install", "use_it"):
        text = (ROOT / "docs" / "pages" / f"{name}.md").read_text(encoding="utf-8")
        write(
            f"{name}.md",
            package.linkify(text, "") + (toctree(guides, hidden="") if name == "use_it" else ""),
        )
    top = [
        "Explore <explore/index>",
        "Essays <essays>",
        "Use it <use_it>",
        f"Claims <{RESULTS[0]}>",
        "API <api/index>",
    ]
    for folder in ("pictures", "explore/pictures"):
        shutil.copytree(ROOT / "nbs" / folder, source / folder)
    for path in (source / "explore" / "pictures").glob("*-dark.png"):  # no page names them
        (source / "_site" / "_images").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, source / "_site" / "_images")
    for path in (source / "pictures").glob("*.svg"):  # here a page is known, and its ink
        path.write_text(inked(path.read_text(encoding="utf-8")), encoding="utf-8")
    # the front page links to them, and to how to contribute
    for name in (
        "CITATION.cff",
        "LICENSE",
    ):
        shutil.copy(ROOT / name, source / name)
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](nbs/", "](/")
    write("CONTRIBUTING.md", f"---\norphan: true\n---\n{contributing}")
    # Results: the notebook that lists the rows is the front page of their pages, of the map and of
    # the long tables.
    (source / "claims").mkdir()
    pieces = claim_pages.pictures(source / "claims", source / "_site")
    for id in claim_pages.IDS:
        lines = claim_pages.page(id, package.claims[id], pieces[id])
        write(f"claims/{id}.md", package.linkify("\n".join(lines), ""))
    tables = {
        f"results/{path.stem}": long_run(path) for path in sorted((ROOT / "results").glob("*.csv"))
    }
    shutil.copytree(ROOT / "results", source / "_tables", ignore=shutil.ignore_patterns("*.json"))
    for name, (_, text) in tables.items():
        write(f"{name}.md", text)
    listed = "".join(f"- [{title}](/{name}.md)\n" for name, (title, _) in tables.items())
    listed = (
        "## Tables of long runs\n\nRuns that take longer than a notebook may, "
        f"each with what made it.\n\n{listed}"
    )
    below = [f"/{name}" for name in (*RESULTS[1:], "ledger/index", *tables)]
    below[1:1] = [f"{id} </claims/{id}>" for id in claim_pages.IDS]
    script = (
        f"```{{raw}} "
        f"html\n<script>{(TEMPLATES / 'filters.js').read_text(encoding='utf-8')}</script>\n```\n"
    )
    written[RESULTS[0]]["cells"] += notebook(script, listed, toctree(below, hidden=""))["cells"]
    for name in RESULTS:
        write(f"{name}.ipynb", json.dumps(written[name]))
    shutil.make_archive(str(source / "notebooks"), "zip", source / "_notebooks")
    write("about.md", "\n".join(claim_pages.about()))
    modules = [module for module in package.modules.values() if module.public or module.forwarded]
    order = list(CHAPTERS)
    modules.sort(key=lambda module: order.index(module.chapter))
    for module in modules:
        write(
            f"api/{module.name}.md",
            package.linkify("\n".join(module.page(package.front)), module.notebook or ""),
        )
    front = package.linkify((ROOT / "docs" / "pages" / "api.md").read_text(encoding="utf-8"), "")
    entries = listing(
        (f"api/{module.name}", module.name, module.doc.partition("\n")[0]) for module in modules
    )
    listed = toctree([f"/api/{module.name}" for module in modules], hidden="")
    write("api/index.md", f"{front}\n## All modules\n\n{entries}\n{listed}")
    written["index"]["cells"] += notebook(toctree(top, hidden=""))["cells"]
    write("index.ipynb", json.dumps(written["index"]))


@click.command(help=__doc__)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "_docs",
    help="where the site goes",
)
def main(out):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        site = Path(folder) / "site"
        write_source(source)
        # Warnings are faults: a broken link, a formula or a name that cannot be resolved.
        settings = [
            "-c",
            str(ROOT / "docs"),
            "-d",
            f"{folder}/doctrees",
            "-D",
            f"html_extra_path={source / '_site'}",
        ]
        code = build_main(
            ["-q", "-W", "--keep-going", "-j", "auto", *settings, str(source), str(site)]
        )
        if site.exists():
            host = claim_pages.settings("doc_host")
            folder_of = claim_pages.settings("doc_baseurl")
            finish(site, host + folder_of if host else "")
            (site / ".buildinfo").unlink(missing_ok=True)
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(site, out)
    click.echo(f"{out / 'index.html'}" if code == 0 else "the site has faults, see above")
    sys.exit(code)


if __name__ == "__main__":
    main()
