"""Keep notebooks, package and README in step.

\b
python tools/notebooks.py export
    write the package and README.md
python tools/notebooks.py run [NOTEBOOK ...]
    execute in place, in fresh kernels, and store clean outputs
python tools/notebooks.py fold [NOTEBOOK ...]
    fold the cells that a reader skips, as the site does
python tools/notebooks.py panels [NOTEBOOK ...]
    give stored explorers and films the present modules, and run nothing
python tools/notebooks.py clean [NOTEBOOK ...]
    store what JupyterLab would store, and nothing that differs between runs
python tools/notebooks.py readme [--check]
    the same, or say whether README.md is what nbs/index.ipynb says
python tools/notebooks.py check [NOTEBOOK ...]
    are all notebooks executed, free of errors, warnings and local paths?
python tools/notebooks.py stale [--check]
    which notebooks does a change touch: their cells, or code that they reach
"""

import ast
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from string import Template

import click
import nbdev.maker
import nbformat
from execnb.nbio import read_nb
from fastcore.foundation import L
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import MarkdownExporter
from nbdev.clean import clean_nb
from nbdev.config import add_init, get_config
from nbdev.doclinks import _build_modidx, nbglob
from nbdev.export import nb_export
from nbdev.maker import ModuleMaker

from vit_theory.ledger.identity import digest, place_of, reached

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))
import drawings  # noqa: E402

NBS = ROOT / "nbs"
# All warnings are shown, but for one that the inline backend gives about itself when it is asked
# for twice the points.
WARNINGS = "default,ignore:InlineBackend._figure_formats_changed:DeprecationWarning"
# One thread and no progress bars: the same numbers and the same text every time.
KERNEL = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": WARNINGS,
    "ANSWERS": "1",  # the answers to the exercises run too
}
TOOL = "tools/notebooks.py"
# In the kernel, what stores beside each figure the drawing that the site shows.
PATHS = os.pathsep.join(filter(None, (str(ROOT / "docs"), os.environ.get("PYTHONPATH"))))
# What JupyterLab writes into a notebook that it opens: stored here, so that opening and saving one
# changes nothing.
KERNEL_SPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": "3.11.7",  # the only line that another Python writes differently
}


def notebooks(paths=()):
    """The named notebooks, or all of nbs/, in reading order."""
    paths_of_notebooks = [Path(p).resolve() for p in paths] or sorted(
        p for p in NBS.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
    )
    missing = [str(p) for p in paths_of_notebooks if not p.is_file()]
    if missing:
        raise click.UsageError(f"no such notebook: {', '.join(missing)}")
    return paths_of_notebooks


def renumber(nb):
    """Ids of widgets and of xarray's tables are random; number them in order of use, so that a
    second run changes nothing. What a cell says itself, as an address, is no such id."""
    text = nbformat.writes(nb)
    random_id = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
    said = {name for cell in nb.cells for name in random_id.findall(cell.source)}
    ids = dict.fromkeys(name for name in random_id.findall(text) if name not in said)
    for number, name in enumerate(ids):
        text = text.replace(
            name,
            f"{number:032x}" if len(name) == 32 else f"{number:08x}-0000-0000-0000-000000000000",
        )
    return nbformat.reads(text, as_version=4)


def without_bars(nb):
    """A notebook without progress bars, and without the state of widgets where no widget is left to
    show."""
    view = "application/vnd.jupyter.widget-view+json"
    bar = re.compile(r"\d/[\d.]+[kMG]? \[")  # 3/4 [, and 0.00/16.0k [
    left = 0
    for cell in nb.cells:
        if cell.cell_type == "code":
            shown = [(output, output.get("data", {})) for output in cell.outputs]
            cell.outputs = [
                output
                for output, data in shown
                if not (view in data and bar.search(data.get("text/plain", "")))
            ]
            for data in (output.get("data", {}) for output in cell.outputs):
                # an explorer leaves what it shows without a kernel
                if data.keys() & {
                    "image/png",
                    "text/html",
                }:
                    data.pop(view, None)
                left += view in data
    if not left:
        nb.metadata.pop("widgets", None)
    return nb


def clean(path):
    """Store a notebook as nbdev cleans it, with the metadata that JupyterLab gives it on
    opening."""
    nb = nbformat.read(path, as_version=4)
    clean_nb(nb, allowed_cell_metadata_keys=["jupyter"])
    nb.metadata["kernelspec"] = dict(KERNEL_SPEC)
    nb.metadata["language_info"] = dict(LANGUAGE)
    for cell in nb.cells:
        cell.metadata.pop("collapsed", None)
        if cell.metadata.get("jupyter", {}).get("outputs_hidden"):
            cell.metadata["collapsed"] = True  # JupyterLab says it twice
    nbformat.write(nb, path)


def execute(path):
    """Run one notebook in a fresh kernel in its own folder and store it with its outputs."""
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    with tempfile.TemporaryDirectory() as scratch:  # what cells leave in a temporary folder goes
        NotebookClient(
            nb,
            timeout=1800,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            record_timing=False,
            coalesce_streams=True,  # how many pieces a text comes in depends on the machine's mood
            extra_arguments=[
                "--InlineBackend.figure_formats=retina",  # twice the points, at the same size
                "--ext=drawings",  # and what the site shows
            ],
        ).execute(env={**os.environ, **KERNEL, "PYTHONPATH": PATHS, "TMPDIR": scratch})
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
                output.get("metadata", {}).pop("needs_background", None)
    scratch = path.with_suffix(".tmp")
    nbformat.write(renumber(without_bars(fold(nb))), scratch)
    scratch.replace(path)
    clean(path)


def dull(source):
    """Whether a reader skips this code at first: imports, checks, and what draws, judges or words a
    criterion."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic command
        return False

    def skipped(node):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
            return True
        if isinstance(node, ast.FunctionDef):
            return re.match(r"_|plot_|draw_|judge_", node.name) is not None
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return getattr(node.value.func, "id", "").startswith("test_")
        targets = [
            element
            for target in getattr(node, "targets", [])
            for element in getattr(target, "elts", [target])
        ]
        names = [getattr(element, "id", "") for element in targets]
        return bool(names) and all(name.isupper() for name in names)

    return bool(body) and all(map(skipped, body))


def folded(source, exported):
    """Whether code stands a click away, here and on the site: a helper, or what a reader skips. An
    experiment, which returns a
    labeled array, is what its page is about."""
    helper = exported == "exporti" and not re.search(r'\) -> "?(xr|xarray)\.Dataset', source)
    return helper or dull(source)


def answers(asked, cell):
    """Whether a cell answers the exercise above it: what it prints is folded away with it, until
    the reader has predicted."""
    return (
        asked.cell_type == "markdown"
        and "**Exercise" in asked.source
        and cell.source.startswith("#| code-fold: true")
    )


def fold(nb):
    """Cells that a reader skips are folded in JupyterLab too, those that answer an exercise with
    their outputs."""
    for above, cell in zip([nb.cells[0], *nb.cells], nb.cells, strict=False):
        if cell.cell_type == "code":
            directive = re.match(
                r"#\|\s*(exporti?|hide|echo: false|code-fold: true)\b", cell.source
            )
            exported = directive[1] if directive else ""
            source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M)
            hidden = exported in ("hide", "echo: false", "code-fold: true") or folded(
                source, exported
            )
            cell.metadata.pop("jupyter", None)
            if hidden:
                cell.metadata["jupyter"] = {"source_hidden": True}
            if answers(above, cell):
                cell.metadata["jupyter"]["outputs_hidden"] = True
    return nb


def faults(path):
    """What is wrong with the stored outputs of a notebook, one line each."""
    name = path.relative_to(ROOT)
    executed = False
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if cell.cell_type != "code":
            continue
        executed |= bool(cell.outputs)
        for output in cell.outputs:
            text = "".join(output.get("text", "")) + "".join(
                output.get("data", {}).get("text/plain", "")
            )
            stored = output.get("data", {})
            if "image/png" in stored and "<Figure" in text and drawings.KIND not in stored:
                yield f"{name}: cell {number} lacks its drawing; run: python {TOOL} run {name}"
            if output.output_type == "error":
                yield f"{name}: cell {number} stored an error: {output.ename}: {output.evalue}"
            if output.get("name") == "stderr":
                yield f"{name}: cell {number} wrote to stderr: {text[:100]!r}"
            if str(Path.home()) in text or str(ROOT) in text:
                yield f"{name}: cell {number} shows a path of this machine: {text[:100]!r}"
    if not executed:
        yield f"{name}: no output is stored; run: python {TOOL} run {name}"


def readme_text():
    """README.md as nbs/index.ipynb makes it: prose, code and text results, without hidden cells and
    front matter."""
    nb = nbformat.read(NBS / "index.ipynb", as_version=4)
    nb.cells = [
        c for c in nb.cells if not re.match(r"#\|\s*(hide|exporti?|default_exp)\b", c.source)
    ]
    nb.metadata.language_info = {"name": "python"}
    for number, cell in enumerate(nb.cells):
        if cell.source.startswith("#| echo: false"):  # what it made is the text
            text = "".join(
                output.get("data", {}).get("text/markdown", "") for output in cell.outputs
            )
            nb.cells[number] = nbformat.v4.new_markdown_cell(text)
    body, resources = MarkdownExporter().from_notebook_node(nb)
    if resources.get("outputs"):
        raise click.ClickException(
            "nbs/index.ipynb has picture outputs; "
            "README.md can only link to pictures that are files"
        )
    # links as seen from the root
    body = re.sub(r"\]\((?!\w+:|#|\.\./)", "](nbs/", body).replace("](../", "](")
    return re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"


@click.group(help=__doc__)
def main():
    pass


@main.command()
@click.argument("paths", nargs=-1)
@click.option("--stale", is_flag=True, help="those that `stale` lists")
def run(paths, stale):
    """Execute notebooks in place."""
    for path in outdated() if stale else notebooks(paths):
        click.echo(f"run {path.relative_to(ROOT)}")
        try:
            execute(path)
            record(path)
        except CellExecutionError as error:
            raise click.ClickException(
                f"{path.relative_to(ROOT)} stays as it was\n{error}"
            ) from error


@main.command("fold")
@click.argument("paths", nargs=-1)
def fold_stored(paths):
    """Fold the cells that a reader skips, and run nothing."""
    for path in notebooks(paths):
        nbformat.write(fold(nbformat.read(path, as_version=4)), path)
        clean(path)


PANEL = re.compile(
    r'(<div id="turn-(\w+?)(?:-\w+)?"></div>\n<script)[^>]*>\n.*?\n *'
    r"(mount\(document\.getElementById)",
    flags=re.S,
)


FILM = re.compile(
    r'<figure class="moving".*?<img src="(?P<first>[^"]*)" alt="(?P<says>[^"]*)" '
    r'width="(?P<width>\d+)" height="(?P<height>\d+)".*?const frames = (?P<frames>\[.*?\]);\n'
    r".*? = (?P<layout>\{.*?\});\n.*?max: (?P<end>\d+), .*?</figure>",
    flags=re.S,
)


@main.command()
@click.argument("paths", nargs=-1)
def panels(paths):
    """Give stored explorers and films the present modules, and run nothing."""
    from vit_theory.explore.panel import plain_script

    film = Template((ROOT / "vit_theory" / "moving.html").read_text(encoding="utf-8").rstrip("\n"))

    def renewed(match):
        return film.substitute(match.groupdict())

    def present(match):
        return f"{match[1]}>\n(() => {{\n{plain_script(match[2])}\n{match[3]}"

    for path in notebooks(paths):
        nb = nbformat.read(path, as_version=4)
        before = nbformat.writes(nb)
        for data in (
            output.get("data", {}) for cell in nb.cells for output in cell.get("outputs", [])
        ):
            text = data.get("text/html", "")
            if PANEL.search(text):
                text = PANEL.sub(present, text)
                data["text/html"] = re.sub(
                    r"\);\s*(?:\}\)\(\);\s*)?</script>$", ");\n})();\n</script>", text
                )
            elif FILM.fullmatch(text):
                data["text/html"] = FILM.sub(renewed, text)
        if nbformat.writes(nb) != before:
            nbformat.write(nb, path)
            click.echo(f"{path.relative_to(ROOT)}")


@main.command("clean")
@click.argument("paths", nargs=-1)
def clean_stored(paths):
    """Clean notebooks, and run nothing."""
    for path in notebooks(paths):
        clean(path)


@main.command()
@click.argument("paths", nargs=-1)
def check(paths):
    """Look at the stored outputs."""
    complaints = [line for path in notebooks(paths) for line in faults(path)]
    click.echo("\n".join(complaints) or "notebooks: executed, no errors, nothing on stderr")
    sys.exit(bool(complaints))


# notebook -> digest of the code that made its stored outputs
RECORD = ROOT / "tools" / "outputs.json"


def code_digest(path):
    """A digest of a notebook's code cells and of the text of all modules of the package that they
    reach."""
    cells = [
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    ]
    code = "\n".join(re.sub(r"^[%!#].*", "", source, flags=re.M) for source in cells)
    plain = ast.unparse(ast.parse(code))  # its layout and its comments made no output
    imported = {
        node.module
        for node in ast.walk(ast.parse(plain))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    imported |= {
        alias.name
        for node in ast.walk(ast.parse(plain))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    texts = {name: text for name, text in reached(imported, leave=()).items() if place_of(name)}
    return digest(json.dumps([plain, texts]))


def recorded():
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(path):
    """Note which code made the stored outputs of a notebook."""
    digests = recorded() | {path.relative_to(ROOT).as_posix(): code_digest(path)}
    digests_of_files = {name: digests[name] for name in sorted(digests) if (ROOT / name).exists()}
    RECORD.write_text(json.dumps(digests_of_files, indent=1) + "\n", encoding="utf-8")


def outdated():
    """Notebooks whose cells, or the code that they reach, changed since they were run, and those of
    which no run is recorded."""
    known = recorded()
    return [
        path
        for path in notebooks()
        if known.get(path.relative_to(ROOT).as_posix()) != code_digest(path)
    ]


@main.command()
@click.option("--check", is_flag=True, help="exit 1 when there is one")
def stale(check):
    """List the notebooks that a change touches."""
    names = [f"{path.relative_to(ROOT)}" for path in outdated()]
    click.echo("\n".join(names) or "notebooks: all stored outputs are made by the present code")
    sys.exit(bool(names) and check)


class Maker(ModuleMaker):
    """nbdev's maker of modules, which also begins a module that only cells name (`#| export
    selection.claims.regime`): the
    first of its cells writes it, below the line that says what the page is. nbdev itself only adds
    to modules that are there."""

    begun: set[str] = set()

    def __init__(self, dest, name, nb_path, is_new=True, **options):
        super().__init__(dest, name, nb_path, is_new=is_new or name not in self.begun, **options)
        self.begun.add(name)

    def make(self, cells, all_cells=None, lib_path=None):
        titles = [
            cell
            for cell in read_nb(self.nb_path).cells
            if cell.cell_type == "markdown" and cell.source.startswith("# ")
        ]
        super().make(L(titles[:1] + list(cells)), all_cells, lib_path=lib_path)


def relative(source, tree, folder):
    """The lines of a cell with relative imports; nbdev's own changes nothing where an import takes
    several lines."""
    lines = source.splitlines(True)
    for node in tree or ():
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            line = lines[node.lineno - 1]
            name = nbdev.maker.relative_import(node.module, folder)
            lines[node.lineno - 1] = line.replace(f"from {node.module} ", f"from {name} ")
    return lines


nbdev.maker.update_import = relative


def write_package():
    """The package, as the notebooks export it."""
    os.chdir(ROOT)  # where nbdev looks for its settings
    Maker.begun.clear()
    for path in nbglob(NBS, as_path=True).sorted("name"):
        nb_export(path.relative_to(ROOT), mod_maker=Maker)
    add_init(get_config().lib_path)
    _build_modidx()


@main.command()
def export():
    """The package and README.md from the notebooks."""
    write_package()
    (ROOT / "README.md").write_text(readme_text(), encoding="utf-8")


@main.command()
@click.option("--check", is_flag=True, help="write nothing; exit 1 when README.md is stale")
def readme(check):
    """The package and README.md, as `export`; with --check only whether README.md is what
    nbs/index.ipynb says."""
    text = readme_text()
    path = ROOT / "README.md"
    if not check:
        write_package()
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        raise click.ClickException("README.md is stale: run make export")


if __name__ == "__main__":
    main()
