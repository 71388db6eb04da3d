"""What is done to the pages that Sphinx wrote: formulas are drawn, and what nobody sees is not
loaded."""

import html
import json
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
FORMULA = re.compile(r'(<(span|div) class="math notranslate nohighlight">)(.*?)(</\2>)', flags=re.S)
# the style sheet has the same as a font
ICONS = re.compile(r"^.*(?:fontawesome\.js|users can add custom icons).*\n", flags=re.M)
# it is loaded when somebody begins to search
INDEX = re.compile(r'<script src="([^"]*searchindex\.js)"></script>\s*</head>')
SEARCH = """<script>addEventListener("focusin", (event) => {
  if (event.target.name === "q" && !document.getElementById("index"))
    Search.loadIndex("%s").id = "index";
});</script></head>"""
# what is seen first needs no script
PRELOAD = re.compile(r'^ *<link rel="preload" as="script".*\n', flags=re.M)
# these may wait for the page
WAITING = re.compile(r'<script src="(?=[^"]*_static/(?!documentation_options))')
# a figure that has its place before it is loaded
SIZED = re.compile(r'<img (?=[^>]*height="\d+"[^>]*_images/)')
SIGNATURE = re.compile(r'<dl>(\s*<dd><em class="sig-param">.*?)</dl>', flags=re.S)
SCRIPT = re.compile(r"^.*(?:tex-svg-full\.js|window\.MathJax = ).*\n", flags=re.M)

# What is no prose: tags, and elements with all that is in them.
NO_PROSE = re.compile(
    r"(<(pre|code|script|style|svg|dt|textarea)\b.*?</\2>"
    r'|<(span|div) class="math notranslate nohighlight">.*?</\3>'
    r"|<title>.*?</title>|<!--.*?-->|<[^>]*>)",
    flags=re.S,
)
TYPED = {"<=": "≤", ">=": "≥", "+-": "±"}
POWER = re.compile(r"(?<=[\w)*])\^(?:\(([^()<>&]{1,12})\)|([-−]?\w+(?:\.\d+)?))")
NAKED = re.compile(r"(?<![\w.])\.(?=\d)")  # a number that begins with its point
LENGTH = re.compile(r"\d+\s*(?:em|ex|pt|mu|cm)\b")  # in TeX, such as \hspace{.3em}


def tex_of(formula):
    """TeX, and whether it stands by itself."""
    inner = re.fullmatch(r"\\([(\[])(.*)\\[)\]]", html.unescape(formula).strip(), flags=re.S)
    return inner[2], inner[1] == "["


def signs(text):
    """Signs for what a keyboard has, in text and in HTML: no number begins with its point."""
    for typed, sign in TYPED.items():
        text = text.replace(typed, sign).replace(html.escape(typed), sign)
    return NAKED.sub("0.", text)


def typeset(text):
    """A page whose prose, tables and captions have signs and whole numbers; code stays as it is."""

    def number(match):
        return "." if LENGTH.match(match.string, match.end()) else "0."

    pieces = NO_PROSE.split(text)[:: NO_PROSE.groups + 1]
    apart = [found[0] for found in NO_PROSE.finditer(text)]
    for place, piece in enumerate(pieces):
        piece = signs(piece).replace("-&gt;", "→")
        piece = re.sub(r"(?<=\d)[ \u00a0\u202f]%", "%", piece)
        piece = re.sub(r"(?:^|(?<=[\s(]))-(?=\d)", "−", piece)
        pieces[place] = POWER.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", piece)
    for place, formula in enumerate(apart):
        if FORMULA.fullmatch(formula):
            apart[place] = NAKED.sub(number, formula)
    return "".join(map("".join, zip(pieces, [*apart, ""], strict=True)))


def with_twins(site, text):
    """A page on which a photograph of an explorer has its twin for the dark."""

    def pair(match):
        if not (site / "_images" / f"{match['name']}-dark.png").exists():
            return match[0]
        light = match[0].replace("<img ", '<img class="only-light" ', 1)
        dark = match[0].replace("<img ", '<img class="only-dark dark-light" ', 1)
        return light + dark.replace(f"{match['name']}.png", f"{match['name']}-dark.png")

    return re.sub(r'<img alt="[^"]*" src="[^"]*_images/(?P<name>[a-z]+)\.png" ?/>', pair, text)


def drawn(formulas):
    """(TeX, whether it stands by itself) -> SVG; and the style that they share."""
    command = ["node", Path(__file__).with_name("math.js"), MATHJAX]
    run = subprocess.run(command, input=json.dumps(formulas), capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"a formula cannot be drawn: {run.stderr}")
    answer = json.loads(run.stdout)
    return dict(zip(formulas, answer["drawn"], strict=True)), answer["style"]


def with_formulas(text, pictures, style):
    """A page whose formulas are pictures; each letter's shape stands once, at the end."""
    shapes = {}

    def draw(match):
        tex = tex_of(match[3])
        svg = re.sub(r"MJX-\d+-", "MJX-", pictures[tex])
        shapes.update(re.findall(r'(<path id="(?:[^"]*)")( d="[^"]*"></path>)', svg))
        # a wide one scrolls, by keyboard too
        svg = svg.replace(' display="true"', ' display="true" tabindex="0"', 1)
        svg = re.sub(r"<defs>.*?</defs>", "", svg).replace(
            'role="img"', f'role="img" aria-label="{html.escape(tex[0])}"', 1
        )
        return match[1] + svg + match[4]

    text = SCRIPT.sub("", FORMULA.sub(draw, text))
    letters = "".join(start + rest for start, rest in shapes.items())
    hidden = (
        '<svg style="position: absolute; width: 0; height: '
        f'0" aria-hidden="true"><defs>{letters}</defs></svg>'
    )
    return text.replace("</head>", f"<style>{style}</style></head>", 1).replace(
        "</body>", f"{hidden}</body>", 1
    )


def missing(home):
    """The page for an address that does not exist: the front's head and menu, with addresses that
    hold in every folder."""
    start = home.index("<article")
    end = home.index("</article>")
    said = "<h1>No such page</h1><p>Try the search above, or one of these:</p><ul>"
    for name, title in (
        ("index", "Home"),
        ("explore/index", "Explore"),
        ("essays", "Essays"),
        ("ledger/10_verdicts", "Claims"),
    ):
        said += f'<li><a href="{name}.html">{title}</a></li>'
    return f'{home[:start]}<article class="bd-article">{said}</ul>{home[end:]}'


def described(text):
    """Title and first sentence of a page, as its head has them."""
    title = re.search(r'<meta property="og:title" content="([^"]*)"', text)
    lead = re.search(r'<meta name="description" content="([^"]*)"', text)
    return html.unescape(re.sub(r"<[^>]*>", "", title[1])) if title else "", html.unescape(
        lead[1]
    ) if lead else ""


def for_machines(site, pages, base):
    """llms.txt: what there is, in words; sitemap.xml, where the address of the site is known."""
    names = sorted(
        path.relative_to(site).as_posix()
        for path in pages
        if not {"_static", "search.html"} & set(path.parts)
    )
    _, summary = described(pages[site / "index.html"])
    lines = ["# vit_theory", f"> {summary}"]
    folders = {
        "": "Guides",
        "selection": "Essay A",
        "association": "Essay B",
        "convolution": "Essay C",
        "models": "Models",
        "images": "Real images",
        "together": "One model",
        "explore": "Explorers",
        "claims": "Claims",
        "api": "API",
    }
    for folder, title in folders.items():
        lines.append(f"\n## {title}\n")
        for name in names:
            if name.rpartition("/")[0] == folder:
                head, lead = described(pages[site / name])
                lines.append(f"- [{head}]({base}{name})" + (f": {lead}" if lead else ""))
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if base:
        urls = "".join(f"<url><loc>{html.escape(base + name)}</loc></url>\n" for name in names)
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<urlset '
            'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        )
        (site / "sitemap.xml").write_text(f"{head}{urls}</urlset>\n", encoding="utf-8")


def below_a_fold(text):
    """An explorer's page ends after its panel and what to try; how it is made is a click away."""
    sections = list(re.finditer(r'<section id="([^"]+)">\s*<h2>', text))
    later = [match for match in sections if match[1] != "things-to-try"]
    start = (
        later[0].start()
        if later
        else text.find('<div class="cell tag_hide-input', text.find('id="things-to-try"'))
    )
    end = text.find("</article>")
    if start < 0 or end < 0:
        return text
    summary = "<summary>How this page is made</summary>"
    return f'{text[:start]}<details class="made">{summary}{text[start:end]}</details>{text[end:]}'


def signature(match):
    """A signature of several lines: a list without terms is none to a screen reader."""
    lines = re.sub(r"<(/?)dd>", r"<\1span>", match[1])
    return f'<span class="sig-lines">{lines}</span>'


def with_heads(text):
    """The list of claims: each cell has its column's head, which the style sheet shows on
    phones."""

    def table(match):
        heads = re.findall(r"<th\b[^>]*>(.*?)</th>", match[0], flags=re.S)
        heads = [re.sub(r"<[^>]*>", "", head).strip() for head in heads]

        def row(cells):
            head = iter(heads)
            return re.sub(r"<td\b", lambda _: f'<td data-head="{next(head)}"', cells[0])

        return re.sub(r"<tr\b(?:(?!</tr>).)*<td\b.*?</tr>", row, match[0], flags=re.S)

    return re.sub(r"<table\b.*?</table>", table, text, flags=re.S)


def finish(site, base=""):
    """Draw the formulas, where node is at hand (elsewhere the reader's browser does it), and load
    less."""
    pages = {path: ICONS.sub("", path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    pages = {path: PRELOAD.sub("", text) for path, text in pages.items()}
    # there the index needs the scripts before it
    for path in pages.keys() - {site / "search.html"}:
        pages[path] = WAITING.sub('<script defer src="', pages[path])
    pages = {path: typeset(text) for path, text in pages.items()}
    pages = {path: INDEX.sub(lambda found: SEARCH % found[1], text) for path, text in pages.items()}
    if shutil.which("node"):
        formulas = list(
            dict.fromkeys(
                tex_of(found[3]) for text in pages.values() for found in FORMULA.finditer(text)
            )
        )
        pictures, style = drawn(formulas)
        pages = {
            path: with_formulas(text, pictures, style) if FORMULA.search(text) else text
            for path, text in pages.items()
        }
        next((site / "_static").glob("tex-svg-full.js")).unlink()
    pages = {path: with_twins(site, text) for path, text in pages.items()}
    for path, text in pages.items():
        pages[path] = SIZED.sub('<img loading="lazy" ', text)
    for path in (site / "explore").glob("0[2-9]*.html"):
        pages[path] = below_a_fold(pages[path])
    for path in (site / "api").glob("*.html"):
        pages[path] = SIGNATURE.sub(signature, pages[path])
    listed = site / "ledger" / "10_verdicts.html"
    pages[listed] = with_heads(pages[listed])
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    (site / "404.html").write_text(missing(pages[site / "index.html"]), encoding="utf-8")
    for_machines(site, pages, base)
    home = site / "index.html"
    # the explorer is seen first
    home.write_text(pages[home].replace("<img ", '<img loading="lazy" '), encoding="utf-8")
    for path in {*site.rglob("*.map"), *site.rglob("fontawesome.js*")}:
        path.unlink()
