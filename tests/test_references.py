"""Citations: each key that a page links to is in the bibliography, each work is cited, and the page
is made from the file."""

import re

from common import NOTEBOOKS, ROOT, cells_in, script

KEY = re.compile(r"references\.ipynb#(\w+)\)")


def cited():
    """The keys that pages link to -> the pages."""
    pages = {}
    for name in NOTEBOOKS:
        for cell in cells_in(name):
            for key in KEY.findall(cell.source) if cell.cell_type == "markdown" else ():
                pages.setdefault(key, []).append(name)
    return pages


def test_no_citation_is_dead():
    works = script("tools/references.py").entries()
    links = cited()
    assert not {key: pages for key, pages in links.items() if key not in works}
    assert not works.keys() - links.keys() - {"li2023", "jelassi2022", "li2021"}, (
        "works that no page cites"
    )


def test_every_work_is_whole():
    works = script("tools/references.py").entries()
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    assert len(works) == text.count("\n@") >= 15
    for key, work in works.items():
        assert {"author", "title", "year", "read"} <= work.keys(), key
        assert "eprint" in work or "url" in work, key


def test_the_page_is_made_from_the_file():
    shown = [
        cell.source for cell in cells_in("references.ipynb") if cell.source.startswith("## Works")
    ]
    assert shown == [script("tools/references.py").page_text()], "run: python tools/references.py"
