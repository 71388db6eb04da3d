"""What is done to the pages that Sphinx wrote: formulas are drawn, and what nobody sees is not loaded."""

import html
import json
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
FORMULA = re.compile(r'(<(span|div) class="math notranslate nohighlight">)(.*?)(</\2>)', flags=re.S)
ICONS = re.compile(r"^.*(?:fontawesome\.js|users can add custom icons).*\n", flags=re.M)  # the style sheet has the same as a font
INDEX = re.compile(r'<script src="([^"]*searchindex\.js)"></script>\s*</head>')  # it is loaded when somebody begins to search
SEARCH = """<script>addEventListener("focusin", (event) => {
  if (event.target.name === "q" && !document.getElementById("index")) Search.loadIndex("%s").id = "index";
});</script></head>"""
PRELOAD = re.compile(r'^ *<link rel="preload" as="script".*\n', flags=re.M)  # what is seen first needs no script
WAITING = re.compile(r'<script src="(?=[^"]*_static/(?!documentation_options))')  # these may wait for the page
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
SCRIPT = re.compile(r"^.*(?:tex-svg-full\.js|window\.MathJax = ).*\n", flags=re.M)


def tex_of(formula):
    """TeX, and whether it stands by itself."""
    inner = re.fullmatch(r"\\([(\[])(.*)\\[)\]]", html.unescape(formula).strip(), flags=re.S)
    return inner[2], inner[1] == "["


def drawn(formulas):
    """(TeX, whether it stands by itself) -> SVG; and the style that they share."""
    command = ["node", Path(__file__).with_name("math.js"), MATHJAX]
    run = subprocess.run(command, input=json.dumps(formulas), capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"a formula cannot be drawn: {run.stderr}")
    found = json.loads(run.stdout)
    return dict(zip(formulas, found["drawn"], strict=True)), found["style"]


def with_formulas(text, pictures, style):
    """A page whose formulas are pictures; each letter's shape stands once, at the end."""
    shapes = {}

    def draw(found):
        tex = tex_of(found[3])
        svg = re.sub(r"MJX-\d+-", "MJX-", pictures[tex])
        shapes.update(re.findall(r'(<path id="(?:[^"]*)")( d="[^"]*"></path>)', svg))
        svg = re.sub(r"<defs>.*?</defs>", "", svg).replace('role="img"', f'role="img" aria-label="{html.escape(tex[0])}"', 1)
        return found[1] + svg + found[4]

    text = SCRIPT.sub("", FORMULA.sub(draw, text))
    letters = "".join(start + rest for start, rest in shapes.items())
    hidden = f'<svg style="position: absolute; width: 0; height: 0" aria-hidden="true"><defs>{letters}</defs></svg>'
    return text.replace("</head>", f"<style>{style}</style></head>", 1).replace("</body>", f"{hidden}</body>", 1)


def rules_of(css):
    """A style sheet -> (what stands before the braces, what inside), rule by rule."""
    begin = depth = 0
    for found in re.finditer(r"[{};]", STRINGS.sub(lambda text: "-" * len(text[0]), css)):
        place, sign = found.start(), found[0]
        depth += {"{": 1, "}": -1, ";": 0}[sign]
        if sign == "{" and depth == 1:
            head, inside = css[begin:place], place + 1
        elif sign == "}" and depth == 0:
            yield head, css[inside:place]
        if depth == 0:
            begin = place + 1


def used_part(css, words):
    """The rules of a style sheet that may apply: whose classes are all among the words of the site."""

    def may(selector):
        apart = re.sub(r":not\((?:[^()]|\([^()]*\))*\)", "", selector).replace("\\", "")
        return set(re.findall(r"\.(-?[A-Za-z_][\w-]*)", STRINGS.sub("", apart))) <= words

    for head, body in rules_of(css):
        if re.match(r"@(media|supports|layer)", head):
            if inner := "".join(used_part(body, words)):
                yield f"{head}{{{inner}}}"
        elif head.startswith("@") or any(kept := [one for one in re.split(r",(?![^(\[]*[)\]])", head) if may(one)]):
            yield f"{head if head.startswith('@') else ','.join(kept)}{{{body}}}"


def lighten(site, pages):
    """Style sheets without the rules that no page needs; a license stays at the top."""
    words = {word for text in pages.values() for found in re.findall(r'class(?:Name)?="([^"]*)"', text) for word in found.split()}
    words |= {word for text in pages.values() for code in re.findall(r"<script[^>]*>(.+?)</script>", text, flags=re.S)
              for word in re.findall(r"[\w-]+", code)}  # fmt: skip
    words |= {word for path in site.rglob("*.js") for word in re.findall(r"[\w-]+", path.read_text(encoding="utf-8"))}
    for path in site.rglob("*.css"):
        css = path.read_text(encoding="utf-8").removeprefix('@charset "UTF-8";')
        if "@import" in css:
            continue
        licenses = "".join(re.findall(r"/\*!.*?\*/", css, flags=re.S))
        css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
        path.write_text(f'@charset "UTF-8";{licenses}{"".join(used_part(css, words))}', encoding="utf-8")


def finish(site):
    """Draw the formulas, where node is at hand (elsewhere the reader's browser does it), and load less."""
    pages = {path: ICONS.sub("", path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    pages = {path: PRELOAD.sub("", text) for path, text in pages.items()}
    for path in pages.keys() - {site / "search.html"}:  # there the index needs the scripts before it
        pages[path] = WAITING.sub('<script defer src="', pages[path])
    pages = {path: INDEX.sub(lambda found: SEARCH % found[1], text) for path, text in pages.items()}
    if shutil.which("node"):
        formulas = list(dict.fromkeys(tex_of(found[3]) for text in pages.values() for found in FORMULA.finditer(text)))
        pictures, style = drawn(formulas)
        pages = {path: with_formulas(text, pictures, style) if FORMULA.search(text) else text for path, text in pages.items()}
        next((site / "_static").glob("tex-svg-full.js")).unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    home = site / "index.html"
    home.write_text(pages[home].replace("<img ", '<img loading="lazy" '), encoding="utf-8")  # the explorer is seen first
    lighten(site, pages)
    for path in {*site.rglob("*.map"), *site.rglob("fontawesome.js*")}:
        path.unlink()
