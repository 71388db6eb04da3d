"""Prepare a release on this machine:  python tools/release.py  (make release)

A dry run for everybody else: nothing is tagged and nothing leaves this machine. First it says, all
at once, what stands against a release. Where nothing does, it runs every check and test (`make test
slow`), then writes into dist/: the site, source distribution and wheel, the ledger of the release,
measured anew at the next fresh seeds, and SHA256SUMS. It ends with what is left for a person. It
takes as long as `make test slow`, `make docs` and `make reproduce` together.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
# Where each file says its version.
VERSIONS = {
    "settings.ini": r"(?m)^version = (.+)$",
    "vit_theory/__init__.py": r'(?m)^__version__ = "(.+)"$',
    "CITATION.cff": r"(?m)^version: (.+)$",
    "CHANGELOG.md": r"(?m)^## (\S+)",
}
FRESH = "python benchmarks/fresh_seeds.py --store build/fresh_seeds"


def versions(root):
    """The version that each file gives, None where it gives none."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in VERSIONS}
    return {
        name: match[1] if (match := re.search(VERSIONS[name], text)) else None
        for name, text in texts.items()
    }


def git(root, *arguments):
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    ).stdout


def used(root, version, kind=""):
    """The studies of fresh seeds of this version, at every scale and on all images, or of one
    kind."""
    path = root / "vit_theory" / "ledger" / "runs" / "fresh_seeds.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [study for name, study in known.items() if name.startswith(f"{version}, {kind}")]


def studies(root, version):
    """Those of all claims at quick scale, on digits."""
    return used(root, version, "triples ")


def measured(root):
    """The ids of the rows of the committed ledger that are measured; all else needs no seeds."""
    path = root / "vit_theory" / "ledger" / "runs" / "quick" / "claims.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    return [row["id"] for row in known if row["evidence"] == "measurement"]


def refusals(root):
    """What stands against a release of the tree in `root`, one sentence each, with what mends
    it."""
    said = versions(root)
    version = said["settings.ini"]
    if len(set(said.values())) > 1:
        yield (
            f"the versions differ ({', '.join(f'{name}: {said[name]}' for name in said)}): "
            "write one, and run make export"
        )
    heading = re.search(r"(?m)^## .*", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if heading and "in work" in heading[0]:
        yield (
            f"CHANGELOG.md begins with {heading[0]!r}: when it is complete, "
            "replace 'in work' by the date"
        )
    if changed := git(root, "status", "--porcelain").splitlines():
        few = ", ".join(line[3:] for line in changed[:5])
        yield (
            f"{len(changed)} files differ from the last commit "
            f"({few}{', ...' if changed[5:] else ''}): commit or remove them"
        )
    if git(root, "tag", "--list", f"v{version}").strip():
        yield f"the tag v{version} exists: a release is never made twice; write the next version"
    tried = {id for study in studies(root, version) for id in study["counts"]}
    if missing := [id for id in measured(root) if id not in tried]:
        few = f"{', '.join(missing[:5])}{', ...' if missing[5:] else ''}"
        yield (
            f"version {version} has no fresh seeds for {len(missing)} rows ({few}): "
            f"{FRESH} --claim ID ..., then commit"
        )
    check = [sys.executable, "tools/evidence.py", "judge", "--check"]
    judged = subprocess.run(check, cwd=root, capture_output=True, text=True)
    if judged.returncode:
        yield (
            "rows are not what their judges say: make evidence, "
            f"then commit\n{judged.stdout}{judged.stderr}"
        ).rstrip()


def next_seed_set(used, seed_set):
    """Seeds of the first seed set after all that were used; `seed_set` gives the seeds of a
    number."""
    last = max((number for number in range(1000) if list(seed_set(number)) in used), default=-1)
    return seed_set(last + 1)


def checksums(folder):
    """SHA256SUMS of the files of a folder, as `sha256sum --check` reads it."""
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS"
    )
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return [path.name for path in files]


def run(*command, **environment):
    click.echo(f"$ {' '.join(map(str, command))}")
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})
    if done.returncode:
        raise click.ClickException(f"status {done.returncode}: no release; mend it, and begin anew")


def build(version, out, jobs):
    """Everything that a release consists of, in the folder `out`."""
    sys.path.append(str(ROOT / "benchmarks"))
    from fresh_seeds import seed_set  # the rule of the seeds stands there alone

    seeds = next_seed_set(
        [list(seeds) for study in used(ROOT, version) for seeds in study["seeds"]], seed_set
    )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    stamp = git(ROOT, "log", "-1", "--format=%ct").strip()  # the same commit gives the same wheel
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, SOURCE_DATE_EPOCH=stamp)
    made = ROOT / "build" / "release"
    shutil.rmtree(made, ignore_errors=True)
    run(sys.executable, "docs/build.py", "--out", made / "site")
    ledger = ["--seeds", ",".join(map(str, seeds)), "--jobs", jobs, "--out", made / "ledger"]
    run(Path(sys.executable).with_name("vit-theory"), "reproduce", *map(str, ledger))
    for name in ("site", "ledger"):
        shutil.make_archive(str(out / f"vit_theory-{version}-{name}"), "zip", made / name)
    return checksums(out)


def left_to_do(version, names):
    """What a person does with what was built."""
    uploaded = " ".join(f"dist/{name}" for name in names if name.endswith((".whl", ".tar.gz")))
    return f"""
dist/ holds {", ".join(names)} and SHA256SUMS.
Nothing was tagged and nothing was uploaded. What is left for you:

1. Look at build/release/ledger/index.html and at build/release/site/index.html.
2. git tag -a v{version} -m "vit_theory {version}" && git push origin v{version}
3. python -m twine upload {uploaded}
4. Put the files of dist/ beside the tag, SHA256SUMS among them.
5. Begin the next version: settings.ini, CITATION.cff, a heading "(in work)" in CHANGELOG.md,
   and make export.
"""


@click.command(help=__doc__)
@click.option(
    "--jobs", default=2, show_default=True, type=click.IntRange(1), help="processes for the ledger"
)
def main(jobs):
    if reasons := list(refusals(ROOT)):
        raise click.ClickException("no release yet:\n" + "\n".join(f"- {line}" for line in reasons))
    version = versions(ROOT)["settings.ini"]
    run("make", "test", "slow")
    names = build(version, ROOT / "dist", jobs)
    click.echo(left_to_do(version, names))


if __name__ == "__main__":
    main()
