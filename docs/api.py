"""The public names of the package as MyST pages, read from its source without importing it.

A parameter is explained by the comment behind it, as nbdev has it, or above it where the line is
full.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

from claim_pages import IDS


def comment(node, lines, last=None):
    """What explains an argument, a field, a constant or a result: the comment behind it (behind
    `last`, its default), or the comment above, where it begins its line."""
    last = last or node
    behind = lines[last.end_lineno - 1][last.end_col_offset :].decode()
    if match := re.fullmatch(r"\s*[,:]?\s*#\s*(.*?)\s*", behind):
        return match[1]
    if lines[node.lineno - 1][: node.col_offset].strip():
        return ""
    above = []
    for line in reversed(lines[: node.lineno - 1]):
        match = re.fullmatch(r"\s*# (?!%%)(.*?)\s*", line.decode())
        if not match:
            break
        above.insert(0, match[1])
    return " ".join(above)


def comments(node, lines):
    """Argument or field -> its comment, of a function or class."""
    if isinstance(node, ast.ClassDef):
        return {
            ast.unparse(field.target): comment(field, lines)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
        }
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = dict(zip(plain[::-1], given.defaults[::-1], strict=False))
    defaults |= dict(zip(given.kwonlyargs, given.kw_defaults, strict=True))
    every = filter(None, [*plain, given.vararg, *given.kwonlyargs, given.kwarg])
    return {
        arg.arg: comment(arg, lines, defaults.get(arg))
        for arg in every
        if arg.arg not in ("self", "cls")
    }


class Module:
    """One module: its public names, and where they come from."""

    def __init__(self, path: Path, root: Path):
        parts = path.relative_to(root).with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        self.lines = text.encode().splitlines()
        tree = ast.parse(text)
        self.chapter = parts[1] if len(parts) > 2 else ""
        self.doc = ast.get_docstring(tree) or ""
        origin = re.search(r"File to edit: \S*?nbs/(\S+)\.ipynb", text)
        self.notebook = origin and origin[1]  # of its page
        self.notebooks = set(re.findall(r"^# %% \S*nbs/(\S+)\.ipynb", text, re.M))
        self.defined = {}
        self.imported = {}
        public = []
        # what a module imports late, it names below `if TYPE_CHECKING:`
        for node in (
            inner
            for statement in tree.body
            for inner in (statement.body if isinstance(statement, ast.If) else [statement])
        ):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                base = (
                    ".".join([*parts[: len(parts) - node.level], node.module or ""])
                    if node.level
                    else node.module
                )
                self.imported |= {
                    alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names
                }
            elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
                self.defined[target.id] = node
                public = ast.literal_eval(node.value) if target.id == "__all__" else public
        self.public = [
            name for name in public if name in self.defined and self.explained(self.defined[name])
        ]
        # full name of one of ours -> the module that users import it from, filled by `Package`
        self.public_of = {}
        self.forwarded = {name: self.imported[name] for name in public if name in self.imported}

    def explained(self, node):
        """Whether a name says what it is: a constant does with a comment."""
        if not isinstance(node, ast.Assign):
            return True
        said = comment(node, self.lines)
        return bool(said) and not said.startswith("fmt:")

    def label(self, name):
        """The place in the notebook where a name is defined; a number, since Sphinx's labels do not
        tell `Claim` from `claim`."""
        return f"{self.name}-{self.public.index(name)}"

    def signature(self, node):
        """`(x, y=1) -> z` and the comments of the parameters: of a function, or of a class by its
        fields or its `__init__`."""
        if isinstance(node, ast.ClassDef):
            if init := [
                item
                for item in node.body
                if isinstance(item, ast.FunctionDef) and item.name == "__init__"
            ]:
                return self.signature(init[0])
            text = ", ".join(
                ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)
            )
        else:
            text = re.sub(r"^(self|cls)(, )?", "", ast.unparse(node.args))
        comments_of = comments(node, self.lines)
        if not getattr(node, "returns", None):
            return f"({text})", comments_of
        comments_of["return"] = comment(node.returns, self.lines)
        return f"({text}) -> {ast.unparse(node.returns)}", comments_of

    def entry(self, name, node, parent=""):
        """The lines of a directive of Sphinx's Python domain."""
        fence = "::::" if parent else ":::::"
        methods = []
        if isinstance(node, ast.Assign):
            value = ast.unparse(node.value)
            says = comment(node, self.lines)
            kind = "data"
            head = name
            comments_of = {}
            doc = says + (f"\n\n```python\n{value}\n```" if len(value) < 90 else "")
        else:
            kind = "class" if isinstance(node, ast.ClassDef) else "method" if parent else "function"
            text, comments_of = self.signature(node)
            if any(
                ast.unparse(decorator).endswith("property") for decorator in node.decorator_list
            ):
                kind = "property"
                text = ""
            head = parent + name + text
            doc = ast.get_docstring(node) or ""
            if kind == "class":
                methods = [
                    item
                    for item in node.body
                    if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
                ]
        public = self.public_of.get(f"{self.name}.{(parent or name).rstrip('.')}", self.name)
        yield f"{fence}{{py:{kind}}} {head}\n:module: {public}\n\n{doc}\n"
        yield (
            "\n".join(
                (":returns:" if p == "return" else f":param {p}:") + f" {c}"
                for p, c in comments_of.items()
                if c
            )
            + "\n"
        )
        for method in methods:
            yield from self.entry(method.name, method, f"{name}.")
        if not parent:
            yield f"{{ref}}`Source and explanation <{self.label(name)}>`\n"
        yield fence + "\n"

    def page(self, front):
        """The module's page: first what a chapter's front page exports (`front`), then the rest,
        constants last."""
        yield f"# {self.name}\n\n{{.lead}}\n{self.doc}\n\n```{{py:module}} {self.name}\n```\n"
        if self.forwarded:
            yield f"`from {self.name} import ...` offers:\n"
            paths = {
                name: f"{self.public_of.get(full, full.rpartition('.')[0])}.{name}"
                for name, full in self.forwarded.items()
            }
            yield "".join(
                f"- {{py:obj}}`{name} <{path}>`\n" for name, path in sorted(paths.items())
            )
        for name in sorted(
            self.public,
            key=lambda n: (
                isinstance(self.defined[n], ast.Assign),
                f"{self.name}.{n}" not in front,
            ),
        ):
            yield from self.entry(name, self.defined[name])


class Package:
    """All modules of the package, and from a name in prose to the thing that is meant."""

    def __init__(self, root: Path, name: str):
        self.modules = {}
        for path in sorted((root / name).rglob("*.py")):
            if path.name != "_modidx.py":
                module = Module(path, root)
                self.modules[module.name] = module
        # a question's page exports to its science, its experiment and its claims, and several pages
        # may export to one module
        self.by_notebook = defaultdict(list)
        for module in self.modules.values():
            for notebook in module.notebooks:
                self.by_notebook[notebook].append(module)
        self.front = {
            full for module in self.modules.values() for full in module.forwarded.values()
        }
        self.public_of = {}  # full name -> the chapter's front page that exports it
        for module in self.modules.values():
            for name, full in module.forwarded.items():
                if full.startswith(f"{module.name}.") and full.rpartition(".")[2] == name:
                    self.public_of.setdefault(full, module.name)
        for module in self.modules.values():
            module.public_of = self.public_of
        # id of a row -> where a notebook shows its card: (label, title of the page, title of the
        # section)
        self.claims = {}
        self.found = defaultdict(list)
        for module in self.modules.values():
            for public in module.public:
                self.found[public].append(module.name)

    def link(self, name, notebook):
        """A name as a link to its entry: of this notebook first, then of its chapter, of a shared
        module, or the only one."""
        if name in IDS:
            return f"[`{name}`](/claims/{name}.md)"
        chapter = f"vit_theory.{notebook.split('/')[0]}."

        def distance(module):
            if self.modules[module].notebook == notebook:
                return 0
            return (
                1
                if "/" in notebook and module.startswith(chapter)
                else 2
                if module.count(".") == 1
                else 3
            )

        ranked = sorted(self.found.get(name, []), key=distance)
        clear = ranked and (len(ranked) == 1 or distance(ranked[0]) < distance(ranked[1]))
        if clear:
            path = self.public_of.get(f"{ranked[0]}.{name}", ranked[0])
            return f"{{py:obj}}`{name} <{path}.{name}>`"
        return f"`{name}`"

    def linkify(self, text, notebook):
        """Names in backticks become links; code blocks, headings, formulas and links stay as they
        are."""
        pieces = re.split(
            r"(^```.*?^```|^#[^\n]*$|\$\$.*?\$\$|\[[^\]]*\]\([^)]*\))", text, flags=re.S | re.M
        )
        code = re.compile(r"(?<![`}\w])`([\w.-]+)(\(\))?`(?!`)")
        return "".join(
            text_or_code if i % 2 else code.sub(lambda m: self.link(m[1], notebook), text_or_code)
            for i, text_or_code in enumerate(pieces)
        )
