"""The ledger at seeds that no run has used, by a rule that was stated before the run.

    python benchmarks/fresh_seeds.py --store DIR [--first 0] [--triples 8] [--scale quick] [--claim ID ...] [--jobs 1]

The rule: triple k (0, 1, ...) of version V is the first three 24-bit numbers of sha256("vit_theory V fresh k"). Each triple is
used once for a row, as it comes; what it says stays in the table. A row that does not get its verdict in at least seven of the
first eight gets a larger experiment, never a wider criterion, and is run again with the next eight (`--first 8`), if need be
once more (`--first 17`); all tables stay. At full scale every row runs once more, at triple 16 (`--scale full --first 16
--triples 1`, hours). DIR keeps the finished rows, so that an interrupted study goes on. Writes
vit_theory/evidence/fresh_seeds.json: by version and triples, the seeds and how often each row got each verdict; rows that were
not asked for keep what stands there.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path

import click

import vit_theory
from vit_theory.claims import EVIDENCE, Run, load_claims, select_claims
from vit_theory.files import provenance
from vit_theory.ledger import reproduce
from vit_theory.sweeps import one_thread


def triple(number: int, version: str = vit_theory.__version__) -> tuple[int, ...]:
    """Seeds of a triple, by the rule."""
    digest = hashlib.sha256(f"vit_theory {version} fresh {number}".encode()).digest()
    return tuple(int.from_bytes(digest[3 * i : 3 * i + 3], "big") for i in range(3))


@click.command(help=__doc__)
@click.option("--store", type=click.Path(path_type=Path), required=True, help="folder that keeps the finished rows")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="number of the first triple")
@click.option("--triples", default=8, show_default=True, type=click.IntRange(1))
@click.option("--scale", default="quick", show_default=True, type=click.Choice(["quick", "full"]))
@click.option("--claim", "ids", multiple=True, help="only these claims (default: all)")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1))
def main(store, first, triples, scale, ids, jobs):
    claims = select_claims(load_claims(), ids)
    found = {claim.id: Counter() for claim in claims}
    for number in range(first, first + triples):
        seeds = triple(number)
        print(f"triple {number}: seeds {seeds}", flush=True)
        with one_thread():
            rows = reproduce(claims, Run(scale=scale, seeds=seeds, n_jobs=jobs), store / str(number), resume=True)
        for row in rows:
            if row["id"] in found:
                found[row["id"]][row["verdict"] or "crashed"] += 1
    path = EVIDENCE / "fresh_seeds.json"
    versions = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    numbers = f"triples {first} to {first + triples - 1}" if triples > 1 else f"triple {first}"
    name = ", ".join([vit_theory.__version__, *(["full scale"] if scale == "full" else []), numbers])
    seeds, before = [list(triple(number)) for number in range(first, first + triples)], versions.get(name, {})
    kept = before["counts"] if before.get("seeds") == seeds else {}
    counts = kept | {id: dict(verdicts) for id, verdicts in found.items()}
    known = [claim.id for claim in load_claims() if claim.id in counts]
    about = {"seeds": seeds, "counts": {id: counts[id] for id in known}, **provenance()}
    path.write_text(json.dumps(versions | {name: about}, indent=1) + "\n", encoding="utf-8")
    for id in found:
        print(f"{id:28} {', '.join(f'{verdict} {number}' for verdict, number in counts[id].items())}")


if __name__ == "__main__":
    main()
