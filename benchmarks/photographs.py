"""Train the two small vision transformers for photographs: content attention, and its positional
twin.

    \b
    python benchmarks/photographs.py --images FOLDER/cifar10 [--store DIR] \\
        [--mixers content,positional] [--precision 32-true]

Ten visits to each of the 50,000 training images of CIFAR-10, half of the patches a step, products
in 16 bits where the processor is faster by them, one thread: one to four processor minutes a visit.
Settings are first guesses, the same for both; the test images are looked at once, at the end.
Writes results/photographs.csv and .json, and each trained model, at a byte a number, to
STORE/MIXER_PRECISION.npz (`accuracy_packed`); those that come with the package lie in
vit_theory/models/weights. A run that is stopped goes on from its last epoch.
"""

import time
from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads
import torch

from vit_theory.images.starts import machine_of
from vit_theory.models import (
    Machine,
    Recipe,
    Variant,
    ViT,
    evaluate,
    flops,
    load_images,
    pack_vit,
    train,
    unpack_vit,
)

SIZES = {"depth": 6, "heads": 4, "width": 128, "hidden": 2}
RECIPE = Recipe(flip=0.5, crop=1 / 8, smoothing=0.1, patches=0.5)
SETTINGS = {"batch": 128, "lr": 2e-3}
EPOCHS = 10
MIXERS = ("content", "positional")


def fresh(mixer: str, seed: int = 0) -> ViT:
    """One of the two models, not yet trained."""
    return ViT(32, 4, 3, 10, mixer=mixer, **SIZES, variant=Variant(pool="cls"), seed=seed)


def run(mixer: str, precision: str, train_data, test_data, store: Path) -> dict:
    """Train one model in its folder; the row of the table."""
    vit = fresh(mixer)
    started = time.process_time()
    history = train(
        vit,
        train_data,
        epochs=EPOCHS,
        **SETTINGS,
        recipe=RECIPE,
        device="cpu",
        machine=Machine(precision=precision),
        folder=store / f"{mixer}_{precision}",
        progress=False,
    )
    minutes = (time.process_time() - started) / 60
    packed = store / f"{mixer}_{precision}.npz"
    pack_vit(vit, packed)
    return {
        "mixer": mixer,
        "epochs": len(history),
        "seed": 0,
        "precision": precision,
        "parameters": sum(p.numel() for p in vit.parameters()),
        "operations": flops(vit),
        "processor_minutes": round(minutes, 2),
        "train_loss": round(history[-1]["loss"], 4),
        "accuracy": evaluate(vit, test_data)["accuracy"],
        "accuracy_packed": evaluate(unpack_vit(packed), test_data)["accuracy"],
    }


@click.command(help=__doc__)
@click.option("--images", required=True, help="A folder with the parquet files of CIFAR-10.")
@click.option("--store", default="build/photographs", show_default=True, type=Path)
@click.option("--mixers", default=",".join(MIXERS), show_default=True)
@click.option(
    "--precision",
    type=click.Choice(["bf16-mixed", "32-true"]),
    help="By default 16 bits where the processor is faster by them.",
)
def main(images, store, mixers, precision):
    precision = machine_of(torch.device("cpu"), precision).precision
    train_data = load_images(images)
    test_data = load_images(images, split="test")
    for mixer in mixers.split(","):
        row = run(mixer, precision, train_data, test_data, store)
        print(row, flush=True)
        bench.save(
            "photographs",
            bench.merged("photographs", ("mixer", "precision"), [row]),
            command="python benchmarks/photographs.py --images FOLDER/cifar10 "
            "[--precision 32-true]",
            images=Path(images).name,
            sizes=SIZES,
            recipe=vars(RECIPE),
            settings=SETTINGS,
            epochs=EPOCHS,
            processor_time="one thread; other work ran on the machine; a run that went on after a "
            "stop counts its last part only",
        )


if __name__ == "__main__":
    main()
