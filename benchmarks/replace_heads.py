"""Heads replaced by a stencil, by four rules: accuracy, operations and processor seconds.

    \b
    python benchmarks/replace_heads.py [--model CHECKPOINT] --images FOLDER/cifar10 [--count 1000]

CHECKPOINT is one of ours with content attention; left out, the model that comes with the package.
Heads and stencils are chosen on 256 training images, accuracy is that of the first test images,
without any training after the replacement. Rules: least measured change of the head's output
(cost), largest convolutional share, least standard deviation of attention (DWConv_VFM,
2605.22132), and chance. Seconds are processor time of one thread, all in turn. Writes
results/replace_heads.csv and .json.
"""

from itertools import product
from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads
import torch

from vit_theory.models import (
    choose_heads,
    evaluate,
    flops,
    head_atlas,
    load_images,
    load_vit,
    replace_heads,
    replacement_change,
    trained_vit,
)
from vit_theory.models.data import Images
from vit_theory.models.replace import RULES

KERNELS = (5, 15)  # 15 x 15 are all offsets of a grid of 8 x 8
SHARES = (0.25, 0.5)
BATCH = 100


@click.command(help=__doc__)
@click.option("--model", type=Path, help="A checkpoint of ours; left out: the shipped model.")
@click.option("--images", required=True, type=Path)
@click.option("--count", default=1000, show_default=True, help="Test images.")
def main(model, images, count):
    vit = load_vit(model).eval() if model else trained_vit()
    about = bench.of_checkpoint(model, vit)
    bench.need_same("replace_heads", test_images=count, **about)
    seen = load_images(images, per_class=26).images[:256]
    test = load_images(images, split="test")
    test = Images(test.images[:count], test.labels[:count], test.classes)
    atlas = head_atlas(vit, seen.split(64))
    heads = vit.config["depth"] * vit.config["heads"]
    models = {("nothing", 0, 0): vit}
    for kernel, share, by in product(KERNELS, SHARES, RULES):
        number = round(share * heads)
        chosen = choose_heads(atlas, number, by)
        models[by, number, kernel] = replace_heads(vit, chosen, kernel=kernel)
    calls = {key: (lambda each=each: each(test.images[:BATCH])) for key, each in models.items()}
    with torch.no_grad():
        timed = {row["peer"]: row for row in bench.compare(calls, rounds=3)}
    rows = []
    for (by, number, kernel), each in models.items():
        row = {"kernel": kernel, "rule": by, "heads_replaced": number, "of": heads}
        row |= {"accuracy": evaluate(each, test)["accuracy"], "operations": flops(each)}
        row["milliseconds_per_image"] = round(
            1000 * timed[by, number, kernel]["median_s"] / BATCH, 4
        )
        row["times_faster"] = round(1 / timed[by, number, kernel]["ratio"], 3)
        row |= {"largest_change": "", "its_bound": ""}
        if number:
            moved = replacement_change(vit, each, test.images[:64])
            layer = int(moved.change.values.argmax())
            row["largest_change"] = round(float(moved.change[layer]), 4)
            row["its_bound"] = round(float(moved.bound[layer]), 4)
        rows.append(row)
        print(row, flush=True)
    command = "python benchmarks/replace_heads.py --images FOLDER/cifar10"
    bench.save("replace_heads", rows, command=command, **about, kernels=KERNELS, test_images=count)


if __name__ == "__main__":
    main()
