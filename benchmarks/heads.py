"""What leads the heads of the two vision transformers that come with the package, on photographs.

    \b
    python benchmarks/heads.py --images FOLDER/cifar10 [--count 512]

The head atlas of each on the first test images of CIFAR-10, and what removing a head does: how far
the answers move (half of the summed change of the ten probabilities) and how many are right
afterwards, on the same images. Writes results/heads.csv (a row a head) and .json. Some minutes of
one thread.
"""

from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads

from vit_theory.models import (
    evaluate,
    head_atlas,
    load_images,
    position_association,
    subject_of,
    trained_vit,
    without_head,
)
from vit_theory.models.data import Images

MIXERS = ("content", "positional")
NAMES = (
    "entropy",
    "distance",
    "sink",
    "local",
    "positional",
    "positional_logits",
    "content",
    "convolutional",
    "cost",
)


@click.command(help=__doc__)
@click.option("--images", required=True, type=Path)
@click.option("--count", default=512, show_default=True, help="Test images.")
def main(images, count):
    bench.need_same("heads", test_images=count)
    test = load_images(images, split="test")
    test = Images(test.images[:count], test.labels[:count], test.classes)
    rows = []
    models = {}
    for mixer in MIXERS:
        vit = trained_vit(mixer)
        score = position_association(vit.P.detach()[1:], vit.grid)
        accuracy = evaluate(vit, test)["accuracy"]
        models[mixer] = {"accuracy": round(accuracy, 4), "association": score}
        atlas = head_atlas(vit, test)
        subject = subject_of(vit, test)
        moved = subject.moved_by_removal(subject.images, atlas.entropy.shape)
        for layer in range(atlas.sizes["layer"]):
            for head in range(atlas.sizes["head"]):
                cell = atlas.isel(layer=layer, head=head)
                row = {"mixer": mixer, "layer": layer, "head": head}
                for name in NAMES:
                    row[name] = round(float(cell[name]), 4)
                    if f"{name}_se" in cell:
                        row[f"{name}_se"] = round(float(cell[f"{name}_se"]), 5)
                row["moved"] = round(moved[layer, head], 4)
                with without_head(vit, layer, head):
                    row["accuracy_without"] = round(evaluate(vit, test)["accuracy"], 4)
                rows.append(row)
        print(mixer, models[mixer], flush=True)
    bench.save("heads", rows, models=models, test_images=count)


if __name__ == "__main__":
    main()
