"""The record on CIFAR-10: accuracy of a ViT that started as a convolution, against processor
minutes.

    \b
    python benchmarks/record.py --images FOLDER/cifar10 [--store DIR] [--epochs 6] \\
        [--seeds 0,1,2,3,4]
    python benchmarks/record.py --images FOLDER/cifar10 --ablation [--arm NAME] [--arm NAME]
        one ingredient left out at a time, or those named, on held-back images
    python benchmarks/record.py --images FOLDER/cifar10 --budget 30
        as many epochs as fit into 30 processor minutes, one seed
    python benchmarks/record.py --images FOLDER/cifar10 --epochs 24 --device cuda
        on a GPU: what more epochs reach, without processor minutes

Writes results/record.csv (a row for each finished run) and record_curve.csv (a row for each epoch),
with .json beside them; rows of other runs stay, and a record of another processor or precision is
never replaced. A run that is stopped goes on from its last epoch, and runs that DIR holds are not
run again. One thread.
"""

import json
from dataclasses import replace
from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads
import torch

from vit_theory.images.record import RecordRecipe, moments_of, pyramid_accuracy, train_record
from vit_theory.ledger.files import provenance, write_file
from vit_theory.models.data import Images, load_images
from vit_theory.models.pyramid import PyramidSizes

KEYS = ("arm", "epochs", "seed")
MADE_BY = ("precision", "processor")  # columns of record.csv alone
HELD_BACK = 5000
EPOCHS_OF_ABLATION = 3


def ablations(recipe, sizes):
    """The runs that leave out one ingredient, by name."""
    return {
        "all ingredients": (recipe, sizes),
        "AdamW in place of Muon": (replace(recipe, muon=False), sizes),
        "no whitening": (replace(recipe, whiten=False), sizes),
        "no mirrors": (replace(recipe, mirror=False), sizes),
        "no shifts": (replace(recipe, border=0), sizes),
        "no label smoothing": (replace(recipe, smoothing=0.0), sizes),
        "no merges (patch 4, one width)": (
            recipe,
            PyramidSizes(patch=4, widths=(160,), depths=(5,), ratios=(2,)),
        ),
        "32-bit products": (replace(recipe, bfloat16=False), sizes),
        # in place of Muon, at other rates than the one that the other parameters have beside Muon
        **{
            f"AdamW at {rate:g}": (replace(recipe, muon=False, other_lr=rate), sizes)
            for rate in (0.001, 0.01, 0.03)
        },
    }


def run(arm, recipe, sizes, seed, train_data, test_data, folder, device):
    """Train once, convert to attention, measure again -> its row, its curve, where it was made."""
    vit, history = train_record(train_data, test_data, sizes, recipe, seed, folder, device=device)
    if device != "cpu":  # its processor waits for the GPU
        history["minutes"] = history.minutes * float("nan")
    mean, deviation = moments_of(train_data.images)
    attentive = vit.to_attention()
    accuracy, _ = pyramid_accuracy(attentive, test_data, mean, deviation, mirrors=False)
    # the same function, in less time
    as_convolution, flips = pyramid_accuracy(vit, test_data, mean, deviation)
    heads = {block.mixer.heads for block, _ in attentive.blocks()}
    minutes = float(history.minutes[-1])
    made = provenance()
    row = {
        "arm": arm,
        "epochs": recipe.epochs,
        "seed": seed,
        "processor_minutes": round(minutes, 2),
        "accuracy": accuracy,
        "accuracy_flips": flips,
        "accuracy_as_convolution": as_convolution,
        "final_mixers": f"attention, {min(heads)} heads",
        "tested_on": f"{len(test_data.labels)} images",
        "precision": history.precision,
        "processor": made["processor"] if device == "cpu" else made["accelerator"],
    }
    epochs = (
        history.to_dataframe()
        .reset_index()
        .rename(columns={"minutes": "processor_minutes"})
        .round(5)
    )
    of_run = {key: row[key] for key in KEYS}
    lines = epochs.rename(columns={"epoch": "after_epoch"}).to_dict("records")
    print(row, flush=True)
    return {"row": row, "curve": [of_run | line for line in lines], "provenance": made}


def finished(file, about):
    """A run that its file holds, None where there is none; refused where it is about something
    else."""
    if not file.exists():
        return None
    made = json.loads(file.read_text(encoding="utf-8"))
    about = json.loads(json.dumps(about))  # with lists in place of tuples, as the file has them
    if made.get("about", about) != about:  # runs of old do not say
        raise click.ClickException(
            f"{file} holds a run of other images, recipe or sizes: give another --store"
        )
    return made


def epochs_within(minutes, recipe, sizes, train_data):
    """How many epochs fit into so many processor minutes: measured on twenty batches."""
    few = Images(
        train_data.images[: 20 * recipe.batch],
        train_data.labels[: 20 * recipe.batch],
        train_data.classes,
    )
    _, history = train_record(few, few, sizes, replace(recipe, epochs=1), progress=False)
    seconds = 60 * float(history.minutes[-1]) / len(few.labels) * len(train_data.labels)
    return max(1, int(60 * minutes / seconds))


@click.command(help=__doc__)
@click.option("--images", required=True, help="A folder with the parquet files of CIFAR-10.")
@click.option("--store", default="build/record", show_default=True, help="Folder of checkpoints.")
@click.option("--epochs", default=6, show_default=True)
@click.option("--seeds", default="0,1,2,3,4", show_default=True)
@click.option("--budget", type=float, help="Processor minutes, in place of --epochs.")
@click.option("--ablation", is_flag=True)
@click.option("--arm", "chosen", multiple=True, help="Of the ablation; without it, all.")
@click.option("--device", default="cpu", show_default=True)
def main(images, store, epochs, seeds, budget, ablation, chosen, device):
    recipe = RecordRecipe(epochs=epochs)
    sizes = PyramidSizes()
    arms = ablations(replace(recipe, epochs=EPOCHS_OF_ABLATION), sizes)
    unknown = set(chosen) - set(arms)
    if unknown or (chosen and not ablation):
        raise click.UsageError(
            f"--arm {', '.join(unknown or chosen)}: with --ablation, one of {'; '.join(arms)}"
        )
    name = Path(images).name
    bench.need_same("record", images=name)
    train_data = load_images(images)
    test_data = load_images(images, split="test")
    if len(train_data.classes) != PyramidSizes().classes:
        raise click.UsageError(
            f"--images {images} has {len(train_data.classes)} classes: the record is about the ten "
            "of CIFAR-10"
        )
    if budget:
        recipe = replace(recipe, epochs=epochs_within(budget, recipe, sizes, train_data))
        print(f"{recipe.epochs} epochs fit into {budget:g} processor minutes")
    runs = [("record", recipe, sizes, int(seed)) for seed in ([0] if budget else seeds.split(","))]
    if ablation:
        order = torch.arange(len(train_data.labels))
        held_back = order[-HELD_BACK:]
        test_data = Images(
            train_data.images[held_back], train_data.labels[held_back], train_data.classes
        )
        train_data = Images(
            train_data.images[:-HELD_BACK], train_data.labels[:-HELD_BACK], train_data.classes
        )
        numbers = [int(seed) for seed in seeds.split(",")]
        runs = [(arm, *arms[arm], seed) for seed in numbers for arm in chosen or arms]
    for arm, of_run, sizes_of_run, seed in runs:
        folder = Path(store) / f"{arm}_{of_run.epochs}_{device}".replace(" ", "_")
        file = folder / f"run_{seed}.json"
        about = {"images": name, "recipe": vars(of_run), "sizes": vars(sizes_of_run)}
        made = finished(file, about)
        if made:
            print(f"{arm}, seed {seed}: finished before, {file}")
        else:
            made = run(arm, of_run, sizes_of_run, seed, train_data, test_data, folder, device)
            write_file(file, json.dumps({"about": about, **made}))
        if arm == "record":  # its curve would replace that of another processor or precision
            bench.merged("record", KEYS, [made["row"]], same=MADE_BY)
        origin = [made["provenance"]]
        bench.add_rows(
            "record",
            (*KEYS, *MADE_BY),
            [made["row"]],
            origin,
            images=name,
            recipe=vars(RecordRecipe()),
            sizes=vars(sizes),
            processor_time="one thread; other work ran on the machine",
        )
        if arm == "record":
            bench.add_rows("record_curve", (*KEYS, "after_epoch"), made["curve"], origin)


if __name__ == "__main__":
    main()
