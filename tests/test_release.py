"""A release is refused with words until everything agrees; README and CONTRIBUTING name only
commands that exist."""

import json
import re
import shlex

import click
import pytest
import yaml
from click.testing import CliRunner
from common import ROOT, python, run, script

from vit_theory.ledger.claims import load_claims

release = script("tools/release.py")
environments = script("tools/environments.py")


def git(folder, *arguments):
    run(
        "git",
        "-c",
        "user.name=nobody",
        "-c",
        "user.email=nobody@example.org",
        *arguments,
        cwd=folder,
    )


@pytest.fixture
def tree(tmp_path):
    """The least that can be released: version 1.2.0, every measured row with fresh seeds,
    everything committed."""
    evidence = tmp_path / "vit_theory" / "ledger" / "runs"
    for folder in (evidence / "quick", tmp_path / "tools"):
        folder.mkdir(parents=True)
    kinds = {"A-one": "measurement", "B-two": "measurement", "C-three": "proof"}
    rows = [{"id": id, "evidence": kind} for id, kind in kinds.items()]
    texts = {
        "settings.ini": "[DEFAULT]\nmin_python = 3.11\nversion = 1.2.0\n",
        "vit_theory/__init__.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": "cff-version: 1.0.0\nversion: 1.2.0\n",
        "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2030-01-01)\n\n- New.\n\n## 1.1.0\n",
        "vit_theory/ledger/runs/quick/claims.json": json.dumps(rows),
        "vit_theory/ledger/runs/fresh_seeds.json": json.dumps(
            {
                "1.2.0, triples 0 to 7": {"seeds": [[1, 2, 3]], "counts": {"A-one": {"holds": 8}}},
                "1.2.0, triples 8 to 15": {"seeds": [[4, 5, 6]], "counts": {"B-two": {"holds": 8}}},
            }
        ),
        "tools/evidence.py": "print('every row is what its judge says')\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(tree):
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "all", "--allow-empty")


def test_nothing_stands_against_a_complete_tree(tree):
    assert list(release.refusals(tree)) == []


@pytest.mark.parametrize(
    "name, before, after, words",
    [
        ("vit_theory/__init__.py", "1.2.0", "1.1.0", "vit_theory/__init__.py: 1.1.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff: 1.1.0"),
        ("CHANGELOG.md", "## 1.2.0 (2030-01-01)\n\n- New.\n\n", "", "CHANGELOG.md: 1.1.0"),
        ("CHANGELOG.md", "## ", "", "CHANGELOG.md: None"),
        (
            "CHANGELOG.md",
            "(2030-01-01)",
            "(in work)",
            "begins with '## 1.2.0 (in work)': when it is complete",
        ),
        (
            "vit_theory/ledger/runs/fresh_seeds.json",
            "B-two",
            "B-old",
            "no fresh seeds for 1 rows (B-two): python benchmarks/fresh_seeds.py",
        ),
        (
            "vit_theory/ledger/runs/fresh_seeds.json",
            "1.2.0, triples 0",
            "1.1.0, triples 0",
            "no fresh seeds for 1 rows (A-one)",
        ),
        (
            "vit_theory/ledger/runs/fresh_seeds.json",
            "1.2.0, triples 0",
            "1.2.0, full scale, triple 0",
            "for 1 rows (A-one)",
        ),
        (
            "tools/evidence.py",
            "print(",
            "raise SystemExit(",
            "make evidence, then commit\nevery row is what its judge says",
        ),
    ],
)
def test_one_fault_is_one_refusal_with_its_remedy(tree, name, before, after, words):
    text = (tree / name).read_text(encoding="utf-8")
    assert before in text
    (tree / name).write_text(text.replace(before, after), encoding="utf-8")
    commit(tree)
    (said,) = release.refusals(tree)
    assert words in said


def test_a_tree_with_changes_is_refused(tree):
    (tree / "new.py").write_text("")
    (said,) = release.refusals(tree)
    assert "1 files differ from the last commit (new.py): commit or remove them" in said


def test_a_version_is_released_once(tree):
    git(tree, "tag", "v1.2.0")
    (said,) = release.refusals(tree)
    assert "the tag v1.2.0 exists" in said


def test_seeds_of_the_ledger_are_the_first_that_are_fresh():
    def seed_set(number):
        return (number, number + 1, number + 2)

    assert release.next_seed_set([], seed_set) == (0, 1, 2)
    assert release.next_seed_set([[0, 1, 2], [17, 18, 19], [3, 4, 5]], seed_set) == (18, 19, 20)


def test_nothing_but_words_tags_or_uploads():
    """The program itself calls git only to ask."""
    text = (ROOT / "tools" / "release.py").read_text(encoding="utf-8")
    assert (
        re.findall(r'git\(\w+, "(\w+)"', text) == ["status", "tag", "log"]
        and text.count('"tag", "--list"') == 1
    )
    assert "twine" not in text.partition("def left_to_do")[0]


def test_lowest_versions_come_from_the_settings():
    lines = ["torch>=2.6", "dask[distributed]>=2025.1", "fastcore>=1.14.5,<2"]
    assert environments.lowest_versions(lines) == ["torch==2.6", "dask==2025.1", "fastcore==1.14.5"]
    with pytest.raises(click.ClickException, match="torch has no lower bound; write NAME>=VERSION"):
        environments.lowest_versions(["torch"])


def test_what_other_environments_run_exists():
    assert set(environments.CLAIMS) <= {claim.id for claim in load_claims()}
    assert [
        name for name in environments.TESTS if not (ROOT / "tests" / f"test_{name}.py").exists()
    ] == []
    needed = {
        re.split("[>=<[]", line)[0] for line in environments.settings()["dev_requirements"].split()
    }
    assert set(environments.TEST_TOOLS) <= needed


def test_the_workflow_has_the_versions_of_the_settings():
    flow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    )["jobs"]["test"]
    assert flow["strategy"]["matrix"]["python"] == environments.settings()["pythons"].split()
    assert ".ci/run" in [step.get("run", "").partition(" ")[0] for step in flow["steps"]]
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "p' README.md |" in ci and "exec make slow" in ci
    site = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
    )["jobs"]
    assert site["test"]["uses"] == "./.github/workflows/tests.yml"
    assert (site["build"]["needs"], site["publish"]["needs"]) == ("test", "build")


PROGRAMS = (
    "make",
    "python",
    "pytest",
    "vit-theory",
    "nbdev_clean",
    ".venv/bin/pip",
    "python3",
    "pipx",
    "git",
)


def spans(text):
    """What stands in backticks, and the lines of blocks of commands without their comments."""
    lines = re.findall(r"(?m)^(?: {4}|(?=make ))(\S.*)$", text)
    return [
        *re.findall(r"`([^`\n]+)`", text),
        *(line.partition("  #")[0].strip() for line in lines),
    ]


def commands():
    """Every command that README, CONTRIBUTING and the issue templates name."""
    names = ["README.md", "CONTRIBUTING.md", ".github/pull_request_template.md"]
    names += [f".github/ISSUE_TEMPLATE/{name}.md" for name in ("row", "fault")]
    quoted = [span for name in names for span in spans((ROOT / name).read_text(encoding="utf-8"))]
    return sorted({span for span in quoted if span.split()[0] in PROGRAMS and " " in span})


def answers(program, words):
    """A click program, or the command of it that the words name, says in its help all options and
    choices among the words."""
    path = words[:1] if isinstance(program, click.Group) else []
    done = CliRunner().invoke(program, [*path, "--help"])
    assert done.exit_code == 0, done.output
    command = program.commands[path[0]] if path else program
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known, (
        f"{words}: the options are {sorted(known)}"
    )
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice) and isinstance(parameter, click.Argument):
            assert words[-1] in parameter.type.choices, f"{words}: one of {parameter.type.choices}"


@pytest.mark.parametrize("command", commands())
def test_a_command_that_is_named_exists(command):
    """Targets of make are run without doing anything, programs are asked for their help, and files
    are there."""
    program, *words = shlex.split(command)
    if program == "make":
        # as make says of a phony target without rule
        assert "Nothing to be done" not in run("make", "--dry-run", *words)
    elif program == "python" and words[0].endswith(".py"):
        answers(script(words[0]).main, words[1:])
    elif program == "vit-theory":
        from vit_theory.ledger.cli import main

        answers(main, words)
    elif program == "python" and words[0] == "-c":
        python(*words)
    elif program == "pytest":
        assert (ROOT / words[0]).exists()
        python("-m", "pytest", "--version", *words[1:])
    elif program == ".venv/bin/pip":
        extra = re.search(r"\.\[(\w+)\]", command)[1]
        assert (
            words[0] == "install"
            and f"{extra}_requirements" in environments.settings()
            and (ROOT / words[-1]).exists()
        )
    else:  # of others, and in need of the network
        assert command.startswith(("python3 -m venv ", "pipx run "))


def test_files_that_are_named_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {
        span
        for span in spans(text)
        if re.fullmatch(r"(?:nbs|tests|tools|docs|benchmarks|\.github|\.ci)/[\w./]+", span)
    }
    assert len(named) > 10 and [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_seeds_of_every_study_are_used(tmp_path):
    folder = tmp_path / "vit_theory" / "ledger" / "runs"
    folder.mkdir(parents=True)
    names = ("1.0, triples 1 to 2", "1.0, full scale, triple 9", "0.9, triples 1 to 2")
    studies = {name: {"seeds": [[number]]} for number, name in enumerate(names)}
    (folder / "fresh_seeds.json").write_text(json.dumps(studies))
    assert [study["seeds"] for study in release.studies(tmp_path, "1.0")] == [[[0]]]
    assert [study["seeds"] for study in release.used(tmp_path, "1.0")] == [[[0]], [[1]]]
