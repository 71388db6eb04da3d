"""Sphinx settings. The source folder is made by build.py; everything a page needs is in the built
site, nothing is fetched."""

from configparser import ConfigParser
from html import escape
from importlib.util import find_spec
from pathlib import Path

from docutils.nodes import Element, caption, container, figure, image, paragraph, raw, reference

HERE = Path(__file__).resolve().parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(HERE.parent / "settings.ini", encoding="utf-8")
settings = parser["DEFAULT"]

project = settings["title"]
author = settings["author"]
copyright = f"{settings['copyright']} · version {settings['version']}"
version = release = settings["version"]

extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.mathjax"]
exclude_patterns = ["_notebooks", "_site", "_tables"]
myst_enable_extensions = [
    "amsmath",
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "dollarmath",
    "fieldlist",
]
myst_dmath_double_inline = True
myst_heading_anchors = 4
# Notebooks may go from a title to a small heading.
suppress_warnings = ["myst.header"]

# Pages are made from the outputs that the notebooks have stored.
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"
nb_ipywidgets_js = {}

python_maximum_signature_line_length = 72
add_module_names = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/favicon.svg"
WIDE = "index", "ledger/10_verdicts", "ledger/11_coverage"  # pages without anything beside
html_sidebars = {page: [] for page in WIDE}
html_context = {"default_mode": "auto"}
html_copy_source = False
html_domain_indices = False
html_show_sphinx = False
REPOSITORY = {"name": "Repository", "url": settings["git_url"], "icon": "fa-brands fa-github"}
html_theme_options = {
    "logo": {"text": project},
    "show_toc_level": 2,
    "navigation_depth": 3,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher", *(["navbar-icon-links"] if settings["git_url"] else [])],
    "navbar_persistent": ["search-button"],
    "search_as_you_type": True,
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
    "footer_start": ["copyright"],
    "footer_end": [],
    "icon_links": [REPOSITORY] if settings["git_url"] else [],
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
}

# One file holds all of MathJax 3; letters are SVG paths, so no fonts are loaded. (MathJax 4 loads
# fonts from the network.)
mathjax = (
    Path(find_spec("sphinx-mathjax-offline").origin).parent
    / "static"
    / "mathjax"
    / "tex-svg-full.js"
)
html_static_path.append(str(mathjax))
mathjax_path = mathjax.name
mathjax3_config = {"options": {"enableMenu": False}}
copybutton_exclude = ".linenos, .gp, .go"


def describe(app, page, template, context, doctree):
    """What search engines and messengers show of a page: its title, its first sentence, a
    picture."""
    leads = doctree.findall(paragraph) if doctree else ()
    lead = next((node.astext() for node in leads if "lead" in node["classes"]), "")
    base = settings["doc_host"] + settings["doc_baseurl"]
    picture = (
        f"{base}poster.png"
        if settings["doc_host"]
        else context["pathto"]("poster.png", resource=True)
    )
    said = {
        "og:type": "website",
        "og:title": context.get("title", project),
        "og:description": lead,
        "og:image": picture,
    }
    tags = [f'<meta name="description" content="{escape(lead)}">'] if lead else []
    tags += [
        f'<meta property="{name}" content="{escape(text)}">' for name, text in said.items() if text
    ]
    # Before anything is drawn: is there a script, and does the reader want to see the code?
    early = (
        'document.documentElement.classList.add("js"); try { if (localStorage.code === "shown") '
    )
    early += 'document.documentElement.classList.add("show-code"); } catch {}'
    if page in WIDE[1:]:  # known before its table has been read, so that nothing moves
        early += ' document.documentElement.classList.add("wide");'
    context["metatags"] = "\n".join(
        [context.get("metatags", ""), *tags, f"<script>{early}</script>"]
    )


# Kinds of arguments that other libraries define, as signatures write them. An inventory for
# intersphinx would have to be fetched, and knows none of these short names.
ELSEWHERE = {
    "Tensor": "https://docs.pytorch.org/docs/stable/tensors.html#torch.Tensor",
    "torch.Tensor": "https://docs.pytorch.org/docs/stable/tensors.html#torch.Tensor",
    "torch.Generator": "https://docs.pytorch.org/docs/stable/generated/torch.Generator.html",
    "nn.Module": "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
    "nn.Conv2d": "https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html",
    "np.ndarray": "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.html",
    "xr.Dataset": "https://docs.xarray.dev/en/stable/generated/xarray.Dataset.html",
    "xr.DataArray": "https://docs.xarray.dev/en/stable/generated/xarray.DataArray.html",
}


def link_elsewhere(app, env, node, shown):
    """A name of another library in a signature -> a link to where it is explained, else None."""
    address = ELSEWHERE.get(node.get("reftarget"))
    return reference("", "", shown, internal=False, refuri=address) if address else None


def drawing(node):
    """What shows a picture: an image, panels side by side, or the output of a cell that holds one
    of them; else None."""
    if isinstance(node, image) or (isinstance(node, container) and "panels" in node["classes"]):
        return node
    if not isinstance(node, container) or "cell" not in node["classes"]:
        return None
    outputs = (output for output in node.children if "cell_output" in output["classes"])
    return next(
        (output for output in outputs if [*output.findall(image), *output.findall(raw)]), None
    )


def pair_figures(app, doctree, page):
    """Each caption goes into one figure with the picture above it."""
    marked = [node for node in doctree.findall(paragraph) if "caption" in node["classes"]]
    for number, words in enumerate(marked, 1):
        above: list[Element] = words.parent.children[: words.parent.index(words)]
        shown = next(
            (output for output in map(drawing, reversed(above)) if output is not None), None
        )
        words.parent.remove(words)
        if shown is None:  # the runs that it shows are not committed yet
            continue
        pair = figure("", ids=[f"figure-{number}"])
        shown.parent.replace(shown, pair)
        pair += [shown, caption("", "", *words.children)]


def setup(app):
    app.connect("doctree-resolved", pair_figures)
    app.connect("html-page-context", describe)
    app.connect("missing-reference", link_elsewhere)
