"""Table 1 and Figure 2 of paper C in the paper's proportions: six layers, nine heads, CIFAR-100 at
32 x 32 pixels in patches of 4 x 4 (16 of 224 there), three seeds.

    python benchmarks/table_1.py --data FOLDER/cifar100 --store DIR [--images 5000] [--seeds 0,1,2]

Each arm has the learning rate that did best with 3,200 photographs of CIFAR-10, at other seeds. One
thread, or a GPU where there is one; processes with other seeds may run side by side with the same
DIR. DIR keeps finished cells and the checkpoints of the trainings in progress: the same command
goes on where it was stopped.

Writes results/table_1.csv and .json (a row for each arm and seed) and results/table_1_curves.csv
(validation loss by epoch) after every seed; rows for other seeds and numbers of images stay. With
several seeds the claims are judged on them at the end.
"""

import json
from pathlib import Path

import click
import torch
import xarray as xr
from side_by_side import (
    command_run,
    data_option,
    merged,
    merged_studies,
    report,
    save,
    store_option,
)

from vit_theory.images.claims.two_phase import FIGURE_2, FIGURE_2_CONVOLUTION, TABLE_1
from vit_theory.images.experiments import EXTENTS, pictures, training_folder
from vit_theory.images.experiments.two_phase import (
    OF_FIGURE_2,
    OF_TABLE_1,
    WAYS,
    two_phase_study,
)
from vit_theory.ledger.sweeps import Run
from vit_theory.models import load_vit

ARMS = tuple(dict.fromkeys(OF_TABLE_1 + OF_FIGURE_2))
NAME = "table_1"


def final_model(study, store: Path, arm: str, seed: int):
    """The trained model of an arm, from its checkpoint."""
    folder = training_folder(store, arm, seed, float(study.rate.sel(arm=arm)))
    (checkpoint,) = folder.parent.glob(f"{folder.name}*/checkpoint.ckpt")  # the rate of phase 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return load_vit(checkpoint).to(device).eval()


@torch.no_grad()
def top_5(vit, test, batch: int = 250) -> float:
    """Share of the test images whose label is among the five largest logits."""
    right = 0
    for images, labels in zip(test.images.split(batch), test.labels.split(batch), strict=True):
        largest = vit(images.to(vit.head.weight.device)).topk(5).indices
        right += int((largest.cpu() == labels[:, None]).sum())
    return right / len(test.labels)


def rows_of(study, number: int, store: Path, test) -> list[dict]:
    """A row for each arm and seed."""
    rows = []
    for arm in study.arm.values:
        for seed in study.seed.values:
            cell = study.sel(arm=arm, seed=seed)
            rows.append(
                {
                    "arm": str(arm),
                    "kernel": WAYS[str(arm)].kernel,
                    "images": number,
                    "seed": int(seed),
                    "top1": float(cell.accuracy),
                    "top5": top_5(final_model(study, store, str(arm), int(seed)), test),
                    "seconds": float(cell.seconds),
                    "epochs": int(cell.epochs),
                    "rate": float(cell.rate),
                    "validation_loss": float(cell.validation_loss),
                    "phase_1": float(cell.phase_1),
                    "transfer": float(cell.transfer),
                    "parameters": int(cell.parameters),
                }
            )
    return rows


def curves_of(study, number: int) -> list[dict]:
    """Validation loss of the last training by epoch."""
    lines = study.loss.to_dataframe().reset_index().dropna()
    lines["epoch"] += 1
    lines.insert(0, "images", number)
    return lines.to_dict("records")


def save_rows(study, rows: list[dict], number: int) -> None:
    """Keep a study's rows and curves beside those that are kept."""
    report(rows)
    seed = rows[0]["seed"]
    about = {
        "command": command_run(),
        "size": study.attrs["size"],
        "cells_provenance": json.loads(study.attrs["provenance"]),
    }
    studies = merged_studies(NAME, {f"{number} images, seed {seed}": about})
    save(NAME, merged(NAME, ("arm", "images", "seed"), rows), studies=studies)
    lines = curves_of(study, number)
    save(f"{NAME}_curves", merged(f"{NAME}_curves", ("arm", "images", "seed", "epoch"), lines))


@click.command()
@data_option
@store_option
@click.option(
    "--images", default=5000, show_default=True, type=click.Choice([5000, 20000]), help="In all."
)
@click.option("--seeds", default="0,1,2", show_default=True)
def main(data, store, images, seeds):
    """Run the study from where it stands, seed by seed."""
    size = f"table-1 {images}"
    _, _, test = pictures(data, EXTENTS["two-phase", size], seed=0)  # the same for every seed
    studies = []
    for seed in (int(seed) for seed in seeds.split(",")):
        here = Path(store) / f"table-1-{images}-seed-{seed}"
        run = Run(images=data, seeds=(seed,), store=here)
        study = two_phase_study(run, size, ARMS)
        save_rows(study, rows_of(study, images, here, test), images)
        studies.append(study)
    if len(studies) > 1:
        whole = xr.concat(
            studies,
            "seed",
            data_vars="minimal",  # the rates are the same for all seeds
            coords="minimal",
            compat="override",
            combine_attrs="override",
        )
        for claim in (TABLE_1, FIGURE_2, FIGURE_2_CONVOLUTION):
            found = claim.judge(whole)
            print(f"{claim.id}, {found.verdict}: {found.measured} {found.note}")


if __name__ == "__main__":
    main()
