"""The page of references from docs/references.bib:  python tools/references.py [--check]"""

import re
import sys
from pathlib import Path

import click
import nbformat

ROOT = Path(__file__).resolve().parent.parent
BIB = ROOT / "docs" / "references.bib"
PAGE = ROOT / "nbs" / "references.ipynb"


def entries():
    """The works of the bibliography -> key, fields."""
    works = {}
    for key, body in re.findall(r"^@\w+\{(\w+), (.*)\}$", BIB.read_text(encoding="utf-8"), re.M):
        works[key] = dict(re.findall(r"(\w+) = \{([^{}]*)\}", body))
    return works


def page_text():
    """The works as one Markdown cell: a heading with its key, to which pages link, and the work
    below."""
    lines = ["## Works"]
    for key, work in sorted(entries().items()):
        people = work["author"].replace(" and ", "; ")
        published = work.get("booktitle") or work.get("journal") or "preprint"
        if "eprint" in work:
            link = f"[arXiv:{work['eprint']}](https://arxiv.org/abs/{work['eprint']})"
        else:
            link = f"[paper]({work['url']})"
        lines.append(
            f"#### {key}\n\n{people}: *{work['title']}*. {published}, {work['year']}, {link}. "
            f"At hand: {work['read']}."
        )
    return "\n\n".join(lines)


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="write nothing; exit 1 when the page is stale")
def main(check):
    page = nbformat.read(PAGE, as_version=4)
    number = next(
        number for number, cell in enumerate(page.cells) if cell.source.startswith("## Works")
    )
    if check:
        sys.exit(page.cells[number].source != page_text())
    page.cells[number].source = page_text()
    nbformat.write(page, PAGE)


if __name__ == "__main__":
    main()
