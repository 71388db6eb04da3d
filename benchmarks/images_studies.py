"""The experiments on real images, larger than the ledger's: tables of every arm and seed.

    python benchmarks/images_studies.py --images FOLDER/cifar10 --store DIR
        one processor core
    python benchmarks/images_studies.py --images FOLDER/cifar100 --store DIR --size hundred
        one processor core
    python benchmarks/images_studies.py --images FOLDER/cifar10 --store DIR \\
            --size large --study table-1
        two hours
    python benchmarks/images_studies.py --images FOLDER/cifar100 --store DIR \\
            --size hundred_large --study three-mixers
        an hour
    python benchmarks/images_studies.py --images FOLDER/cifar100 --store DIR --size full
        a GPU, for hours

Writes results/images_STUDY.csv and .json (for another size: images_SIZE_STUDY) as soon as a study
is finished; rows of other seeds stay. DIR keeps finished cells and the checkpoints of the training
in progress, for each set of images and size: the same command goes on where it was stopped. Each
kind of arm has the learning rate that did best on validation images at seeds that are not judged,
unless its size gives a single one; no choice looks at test images.
"""

import json
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import xarray as xr
from side_by_side import merged, merged_provenance, need_same, report, save, store_option

from vit_theory.images.claims.canvases import MASS, SPARSIFICATION
from vit_theory.images.claims.positions import ASSOCIATION, POSITIONAL
from vit_theory.images.claims.two_phase import ACCELERATION, FIGURE_2, TABLE_1
from vit_theory.images.experiments.canvases import ALL_CHOICES, canvas_study
from vit_theory.images.experiments.photographs import CURVES, curve_study
from vit_theory.images.experiments.positions import positions_study
from vit_theory.images.experiments.two_phase import OF_TABLE_1, two_phase_study
from vit_theory.ledger.sweeps import Run

STUDIES = {
    "two-phase": (two_phase_study, (TABLE_1, ACCELERATION, FIGURE_2)),
    "positions": (positions_study, (POSITIONAL, ASSOCIATION)),
    "canvases": (partial(canvas_study, arms=ALL_CHOICES), (MASS, SPARSIFICATION)),
}
# of a study, where all of it takes too long
PARTS = {
    "table-1": (partial(two_phase_study, arms=OF_TABLE_1), (TABLE_1,)),
    "three-mixers": (
        partial(positions_study, arms=("content", "positional", "uniform")),
        (POSITIONAL,),
    ),
}


def rows(study: xr.Dataset) -> list[dict]:
    """A row for each arm and seed (and value, for a curve) with all numbers that are not curves
    themselves."""
    axes = [axis for axis in ("arm", "seed", *CURVES) if axis in study.dims]
    flat = study.drop_vars(
        [name for name in study.data_vars if not set(study[name].dims) <= set(axes)]
    )
    frame = flat.to_dataframe(dim_order=axes).reset_index()
    return frame.astype(object).to_dict("records")


def curves(study: xr.Dataset) -> dict:
    """Means over seeds of what is measured through training, by arm."""
    found = {}
    for name in ("loss", "mass"):
        if name in study:
            for arm in study.arm.values:
                lines = (
                    study[name]
                    .sel(arm=arm)
                    .mean("seed")
                    .dropna("epoch")
                    .values.reshape(-1, study.sizes.get("layer", 1))
                    .T
                )
                for layer, line in enumerate(lines):
                    key = f"{name}, {arm}" + (f", layer {layer}" if name == "mass" else "")
                    found |= {key: " ".join(f"{value:.3f}" for value in line)} if len(line) else {}
    return found


def summary(table: list[dict]) -> dict[str, str]:
    """Mean and standard deviation of the accuracy over seeds, by arm (and value, for a curve)."""

    def in_words(found: list[float]) -> str:
        spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
        return f"{statistics.mean(found):.2f}{spread} %"

    axes = [axis for axis in ("arm", *CURVES) if axis in table[0]]
    by_point: dict[str, list[float]] = {}
    for row in table:
        point = ", ".join(str(row[axis]) for axis in axes)
        by_point.setdefault(point, []).append(100 * float(row["accuracy"]))
    return {point: in_words(found) for point, found in by_point.items()}


def write(name: str, study: xr.Dataset, command: str, claims=()):
    """Print a study's table with what the ledger's judges say of it, and keep the table."""
    axes = [axis for axis in CURVES if axis in study.dims]
    new = rows(study)
    report(new)
    table = merged(name, ("arm", "seed", *axes), new)
    for claim in claims:
        found = claim.judge(study)
        print(f"{claim.id}, {found.verdict}: {found.measured} {found.note}")
    cells = json.loads(study.attrs["provenance"])
    about = {"command": command, "images": study.attrs["images"], "size": study.attrs["size"]}
    about["seeds"] = sorted({int(row["seed"]) for row in table})
    about["validation_loss_by_rate"] = json.loads(study.attrs.get("validation_loss_by_rate", "{}"))
    about["device"] = cells[0]["accelerator"] or cells[0]["processor"]
    about["cells_provenance"] = merged_provenance(name, cells)
    about["accuracy_mean_and_deviation"] = summary(table)
    # means over the seeds of the table, as those of the accuracy, or none
    if set(about["seeds"]) <= set(study.seed.values.tolist()):
        about["through_training"] = {} if axes else curves(study)
    else:
        about["through_training"] = {}
        seeds = ",".join(map(str, about["seeds"]))
        print(f"{name}.json is left without curves, which need all seeds: --seeds {seeds}")
    save(name, table, **about)


def table_of(study: str, size: str) -> str:
    """The name of a study's table."""
    prefix = "images" if size == "middle" else f"images_{size}"
    part = f"canvases_{study}" if study in CURVES else study.replace("-", "_")
    return f"{prefix}_{part}"


@click.command()
@click.option(
    "--images",
    required=True,
    help="Source of the images: a folder of parquet files, a name on the hub, digits.",
)
@store_option
@click.option(
    "--size",
    default="middle",
    show_default=True,
    type=click.Choice(
        ["quick", "middle", "hundred", "photographs", "large", "hundred_large", "full"]
    ),
)
@click.option(
    "--study",
    "chosen",
    multiple=True,
    type=click.Choice([*STUDIES, *PARTS, *CURVES]),
    help="Only these; by default all but table-1 and three-mixers, parts of others.",
)
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes; they may share a GPU.",
)
def main(images, store, size, chosen, seeds, jobs):
    """Run the studies one after the other."""
    name = Path(images).name
    command = (
        f"python benchmarks/images_studies.py --images FOLDER/{name} --store DIR --size {size} "
        f"--seeds {seeds} --study "
    )
    run = Run(
        images=images,
        seeds=tuple(int(seed) for seed in seeds.split(",")),
        store=Path(store) / f"{name}-{size}",
        n_jobs=jobs,
    )
    chosen = chosen or (*STUDIES, *CURVES)
    for part in chosen:
        need_same(table_of(part, size), images=name)
    rates = None
    for study, (function, claims) in (STUDIES | PARTS).items():
        if study in chosen or (study == "canvases" and set(chosen) & set(CURVES)):
            found = function(replace(run, store=run.store / study), size)
            write(table_of(study, size), found, command + study, claims)
            rates = (
                dict(zip(found.arm.values, found.rate.values.tolist(), strict=True))
                if study == "canvases"
                else rates
            )
    for along in CURVES:
        if along in chosen:
            found = curve_study(replace(run, store=run.store / "canvases"), along, rates, size)
            write(table_of(along, size), found, command + along)


if __name__ == "__main__":
    main()
