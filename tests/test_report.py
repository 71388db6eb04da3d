"""The report: claims beside the committed run, filters without a server, nothing of a claim is
markup."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest
import yaml
from browser import chromium, needs_chromium
from common import ROOT

from vit_theory.figures import to_svg
from vit_theory.ledger.claims import Run, load_claims
from vit_theory.ledger.evidence import committed, measured, standing
from vit_theory.ledger.report import PAPERS, against_standing, commands, report, took
from vit_theory.ledger.rules import Rule
from vit_theory.ledger.run import reproduce

HOSTILE = (
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\"> {{ "
    "7 * 7 }} a & b"
)


@pytest.fixture(scope="module")
def rows():
    """The committed rows as a run of this machine; one says something else, one is full of
    markup."""
    committed_rows = committed("quick")
    other = next(row for row in committed_rows if row["verdict"] == "holds" and row["quantities"])
    other["verdict"] = "refuted as stated"
    other["quantities"] = [{**quantity, "value": "9.99"} for quantity in other["quantities"]]
    hostile = {
        name: HOSTILE for name in ("source", "statement", "criterion", "measured", "note", "images")
    }
    hostile |= {
        "history": [{"since": HOSTILE, "was": HOSTILE, "why": HOSTILE}],
        "id": "A-hostile",
        "notebook": HOSTILE,
    }
    hostile["quantities"] = [dict.fromkeys(("name", "value", "spread", "threshold"), HOSTILE)]
    crashed = {"id": "A-crashed", "verdict": None, "error": HOSTILE, "traceback": HOSTILE}
    return [*committed_rows, committed_rows[0] | hostile, committed_rows[0] | crashed]


@pytest.fixture(scope="module")
def page(rows, tmp_path_factory):
    """The report with one picture for all rows -> its path."""
    claim = next(claim for claim in load_claims() if claim.id == "A-phase-diagram")
    picture = to_svg(claim.figure(measured(claim.id, "quick")))
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(
        report(rows, {row["id"]: picture for row in rows if not row["error"]}, site="../site"),
        encoding="utf-8",
    )
    return path


def test_it_stands_alone_and_no_label_is_used_twice(page, rows):
    text = page.read_text(encoding="utf-8")
    loaded = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, given: loaded.extend(
        value for name, value in given if name == "src" or (tag, name) == ("link", "href")
    )
    parser.feed(text)
    assert not loaded and text.count(' data-svg="') == len(rows) - 1
    labels = re.findall(r"<article id=\"(.+?)\">\s*<h3>(\S+)", text)
    assert [id for id, _ in labels] == [label for _, label in labels]
    assert sorted(id for id, _ in labels) == sorted({row["id"] for row in rows})


def test_what_differs_from_the_committed_run_is_marked(page, rows):
    articles = re.findall(
        r"<article id=\"(.+?)\">(.+?)</article>", page.read_text(encoding="utf-8"), flags=re.S
    )
    ids = {id for id, article in articles if "<mark>differs</mark>" in article}
    old = {row["id"]: row["verdict"] for row in committed("quick")}
    assert (
        ids == {row["id"] for row in rows if row["verdict"] != old.get(row["id"], row["verdict"])}
        and len(ids) == 1
    )
    changed = next(article for id, article in articles if id in ids)
    assert changed.count("9.99") == changed.count("<mark>") - changed.count("<mark>differs") > 0
    untouched = [article for id, article in articles if id not in ids]
    assert not [
        article
        for article in untouched
        if article.count("<mark>")
        != len(re.findall("<mark>differs from the full(?: photographs)? run", article))
    ]


def test_what_the_full_run_says_otherwise_is_marked_with_the_reason(page):
    """Both verdicts stand at every claim; a smaller run that says something else is marked, in the
    list and at its claim."""
    text = page.read_text(encoding="utf-8")
    quick = {row["id"]: row for row in committed("quick")}
    full = {row["id"]: row for row in committed("full")}
    shown = {row["id"]: row for row in standing()}
    other = {id for id, row in quick.items() if row["verdict"] != shown[id]["verdict"]}
    assert len(other) >= 3
    articles = dict(re.findall(r"<article id=\"(.+?)\">(.+?)</article>", text, flags=re.S))
    lines = dict(
        re.findall(
            r"<tr data-committed=\"[^\"]*\"><td><a href=\"#(.+?)\">.+?</a></td>(.+?)</tr>",
            text,
            flags=re.S,
        )
    )
    for id in full:
        for text_of_row in (articles[id], lines[id]):
            verdicts = re.findall(
                r"(quick|full): <span class=\"verdict v\d\">\S (.+?)</span>", text_of_row
            )
            assert verdicts == [("quick", quick[id]["verdict"]), ("full", full[id]["verdict"])], id
    for id in other:
        run = "full photographs" if shown[id]["images"] != "digits" else "full"
        marked = f"differs from the {run} run</mark>"
        assert marked in lines[id] and marked in articles[id]
        reason = re.search(rf"README and site show the {run} run: (.+?)</dd>", articles[id])[1]
        why = "speaks for these" if "photographs" in run else "This run cannot decide against it"
        assert reason.startswith(shown[id]["verdict"]) and why in reason, id


def test_no_reason_is_given_for_what_no_size_explains():
    """A full run on this machine, or a claim that crashed, does not differ because it is
    smaller."""
    row = committed("full")[0]
    assert (
        against_standing(row | {"verdict": "refuted as stated"})
        == ""
        == against_standing(row | {"verdict": None})
    )
    small = row | {"scale": "quick", "verdict": "inconclusive", "note": "an interval too wide"}
    assert against_standing(small).endswith("and is undecided itself (an interval too wide).")
    assert "speaks for these" in against_standing(small | {"images": "elsewhere/svhn"})


@pytest.mark.parametrize("change", ["a rule more", "a rule less"])
def test_a_claim_that_has_changed_since_the_committed_run(tmp_path, change):
    """One quantity more than the committed run has, or one less: the report shows where nothing was
    measured."""
    claim = next(claim for claim in load_claims() if claim.id == "C-theorem-1")
    rules = (
        (*claim.rules, Rule("one thing more", lambda data: 1.0))
        if change == "a rule more"
        else claim.rules[:-1]
    )
    changed = dataclasses.replace(
        claim, rules=rules, sentence="", experiment=lambda run: measured("C-theorem-1", "quick")
    )
    (row,) = reproduce([changed], Run(progress=False), tmp_path)
    assert not row["error"], row["error"]
    table = re.search(
        r"<th>Committed</th>(.+?)</table>",
        (tmp_path / "index.html").read_text(encoding="utf-8"),
        flags=re.S,
    )[1]
    cells = [re.findall(r"<td>(.*?)</td>", line, flags=re.S) for line in table.split("</tr>")]
    missing = [
        of_this_run == "not measured"
        for *_, of_this_run, of_committed in filter(None, cells)
        if "not measured" in of_this_run + of_committed
    ]
    assert missing == [change == "a rule less"]


def test_links_lead_to_paper_claim_page_and_notebook(page):
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert [address for _, address in PAPERS.values()] == [
        reference["url"] for reference in references
    ]
    text = page.read_text(encoding="utf-8")
    assert (
        'href="../site/claims/C-theorem-1.html"' in text
        and 'href="../site/claims/A-hostile.html"' not in text
    )
    for claim in load_claims():
        assert f'Card(\\"{claim.id}\\")' in (ROOT / "nbs" / f"{claim.page}.ipynb").read_text(
            encoding="utf-8"
        ), claim.id


def test_commands_and_seconds():
    row = committed("full")[0] | {"images": "my images", "seeds": [5, 6, 7]}
    assert commands([row]) == [
        f"vit-theory reproduce {row['id']} --scale full --images 'my images' --seeds 5,6,7"
    ]
    assert commands(committed("quick")) == ["vit-theory reproduce"]
    first = {"id": "one", "seconds": 61.04, "shared": False, "code": {"experiment": "a"}}
    second = first | {"id": "two", "shared": True}
    fast = {"id": "three", "seconds": 0.01, "code": {"experiment": "b"}}
    assert [took(row, [first, second, fast]) for row in (first, second, fast)] == [
        "61.0 seconds",
        "61.0 seconds, shared with one",
        "less than 0.1 seconds",
    ]
    assert (
        took({"id": "old", "seconds": 2.0, "shared": True}, [first, fast])
        == "2.0 seconds, shared with another claim"
    )


# The ground of the first legend of a figure, as it is drawn.
LEGEND = """async (image) => {
    const drawn = document.createElement("div");
    drawn.innerHTML = await (await fetch(image.src)).text();
    document.body.append(drawn);
    return getComputedStyle(drawn.querySelector("[id^=legend_] path")).fill;
}"""


@needs_chromium
@pytest.mark.parametrize(
    ("scheme", "ground"), [("dark", "rgb(22, 24, 28)"), ("light", "rgb(255, 255, 255)")]
)
def test_a_legend_over_a_map_can_be_read(page, scheme, ground):
    with chromium() as browser:
        tab = browser.new_page(color_scheme=scheme)
        tab.goto(f"{page.as_uri()}#A-phase-diagram")
        image = tab.wait_for_selector("#A-phase-diagram img")
        assert image.evaluate(LEGEND) == ground


@needs_chromium
def test_in_a_browser(page, rows):
    """From the file: markup is text, filters hide rows and their articles, the address keeps them,
    nothing scrolls sideways."""
    with chromium() as browser:
        for width, scheme in ((1400, "dark"), (390, "light")):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            errors = []
            tab.on("pageerror", lambda error, problems=errors: problems.append(str(error)))
            tab.on(
                "console",
                lambda message, problems=errors: (
                    problems.append(message.text) if message.type == "error" else None
                ),
            )
            tab.goto(page.as_uri())
            assert tab.title() == "vit_theory: claims ledger" and not errors
            assert tab.locator("article img").count() == 0  # a figure is unpacked when it is opened
            for id in ("A-hostile", "A-crashed"):
                tab.goto(f"{page.as_uri()}#{id}")
                assert HOSTILE in tab.inner_text(f"#{id} details")
            tab.wait_for_function("document.querySelector('#A-hostile img')?.naturalWidth > 100")
            tab.select_option("[name=committed]", "differs")
            assert tab.locator("article:visible").count() == 1
            tab.select_option("[name=committed]", "")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
            tab.select_option("[name=verdict]", "refuted as stated")
            tab.select_option("[name=paper]", "C")
            tab.fill("[name=text]", "convolution")
            kept = tab.url
            articles = tab.locator("article:visible")
            ids = [article.get_attribute("id") for article in articles.all()]
            expected = {
                row["id"]
                for row in rows
                if row["paper"] == "C" and row["verdict"] == "refuted as stated"
            }
            assert (
                set(ids) <= expected
                and tab.locator("tbody tr:visible a").all_inner_texts()[: len(ids)] == ids
            )
            tab.goto("about:blank")
            tab.goto(kept)
            assert [article.get_attribute("id") for article in articles.all()] == ids
            tab.select_option("[name=verdict]", "crashed")
            assert (
                articles.count() == 0
                and tab.inner_text(".claims-filter output") == f"0 of {len(rows)} claims"
            )
