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


def finish(site):
    """Draw the formulas, where node is at hand (elsewhere the reader's browser does it), and load fewer scripts."""
    pages = {path: ICONS.sub("", path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    pages = {path: INDEX.sub(lambda found: SEARCH % found[1], text) for path, text in pages.items()}
    if shutil.which("node"):
        formulas = list(dict.fromkeys(tex_of(found[3]) for text in pages.values() for found in FORMULA.finditer(text)))
        pictures, style = drawn(formulas)
        pages = {path: with_formulas(text, pictures, style) if FORMULA.search(text) else text for path, text in pages.items()}
        next((site / "_static").glob("tex-svg-full.js")).unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    for path in {*site.rglob("*.js.map"), *site.rglob("fontawesome.js*")}:
        path.unlink()
