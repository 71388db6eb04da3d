"""A release is refused with words until everything agrees; CONTRIBUTING names only commands that exist."""

import hashlib
import importlib.util
import json
import re
import subprocess
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parent.parent


def tool(name):
    """A script of tools/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, environments = tool("release"), tool("environments")


def git(folder, *arguments):
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    """The least that can be released: version 1.2.0, one row with fresh seeds, everything committed."""
    evidence = tmp_path / "vit_theory" / "evidence"
    for folder in (evidence / "quick", tmp_path / "tools"):
        folder.mkdir(parents=True)
    texts = {
        "settings.ini": "[DEFAULT]\nmin_python = 3.11\nversion = 1.2.0\n",
        "vit_theory/__init__.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": "cff-version: 1.0.0\nversion: 1.2.0\n",
        "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2030-01-01)\n\n- New.\n\n## 1.1.0\n",
        "vit_theory/evidence/quick/claims.json": json.dumps([{"id": "A-one"}, {"id": "B-two"}]),
        "vit_theory/evidence/fresh_seeds.json": json.dumps(
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
        ("CHANGELOG.md", "(2030-01-01)", "(in work)", "begins with '## 1.2.0 (in work)': when it is complete"),
        (
            "vit_theory/evidence/fresh_seeds.json",
            "B-two",
            "B-old",
            "no fresh seeds for 1 rows (B-two): python benchmarks/fresh_seeds.py",
        ),
        ("vit_theory/evidence/fresh_seeds.json", "1.2.0, triples 0", "1.1.0, triples 0", "no fresh seeds for 1 rows (A-one)"),
        ("vit_theory/evidence/fresh_seeds.json", "1.2.0, triples 0", "1.2.0, full scale, triple 0", "for 1 rows (A-one)"),
        ("tools/evidence.py", "print(", "raise SystemExit(", "make evidence, then commit\nevery row is what its judge says"),
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


def test_all_faults_are_said_at_once(tree):
    for name in ("CHANGELOG.md", "vit_theory/evidence/fresh_seeds.json"):
        path = tree / name
        path.write_text(path.read_text(encoding="utf-8").replace("1.2.0", "1.2.1 (in work)"), encoding="utf-8")
    assert len(list(release.refusals(tree))) == 4


def test_seeds_of_the_ledger_are_the_first_that_are_fresh():
    def triple(number):
        return (number, number + 1, number + 2)

    assert release.next_triple([], triple) == (0, 1, 2)
    assert release.next_triple([[0, 1, 2], [17, 18, 19], [3, 4, 5]], triple) == (18, 19, 20)


def test_checksums_find_a_change(tmp_path):
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.zip").write_bytes(b"site")
    assert release.checksums(tmp_path) == release.checksums(tmp_path) == ["a.zip", "b.whl"]
    first, second = (tmp_path / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert first == f"{hashlib.sha256(b'site').hexdigest()}  a.zip" and second.endswith("  b.whl")


def test_the_end_says_what_is_left():
    text = release.left_to_do("1.2.0", ["a.tar.gz", "a.whl", "a.zip"])
    for words in ("Nothing was tagged", "git tag -a v1.2.0", "twine upload dist/a.tar.gz dist/a.whl\n", "SHA256SUMS"):
        assert words in text


def test_nothing_but_words_tags_or_uploads():
    """The program itself calls git only to ask."""
    text = (ROOT / "tools" / "release.py").read_text(encoding="utf-8")
    assert re.findall(r'git\(\w+, "(\w+)"', text) == ["status", "tag", "log"] and text.count('"tag", "--list"') == 1
    assert "twine" not in text.partition("def left_to_do")[0]


def test_lowest_versions_come_from_the_settings():
    lines = ["torch>=2.6", "dask[distributed]>=2025.1", "fastcore>=1.14.5,<2"]
    assert environments.lowest_versions(lines) == ["torch==2.6", "dask==2025.1", "fastcore==1.14.5"]
    with pytest.raises(click.ClickException, match="torch has no lower bound; write NAME>=VERSION"):
        environments.lowest_versions(["torch"])


def test_what_other_environments_run_exists():
    from vit_theory.claims import load_claims

    assert set(environments.CLAIMS) <= {claim.id for claim in load_claims()}
    assert [name for name in environments.TESTS if not (ROOT / "tests" / f"test_{name}.py").exists()] == []
    needed = {re.split("[>=<[]", line)[0] for line in environments.settings()["dev_requirements"].split()}
    assert set(environments.TEST_TOOLS) <= needed | {"nbformat"}  # nbformat comes with nbdev and nbclient
