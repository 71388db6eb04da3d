"""The pictures of the front page, drawn from the committed measurements, and of the explorers:
python tools/pictures.py"""

import sys
from pathlib import Path

import click
import numpy as np
import torch
from sklearn.datasets import load_sample_image

from vit_theory.convolution import conv_to_attention, known_conv
from vit_theory.explore import (
    association_explorer,
    convolution_explorer,
    selection_explorer,
    vit_explorer,
)
from vit_theory.figures import COLORS, style, subplots, to_svg
from vit_theory.ledger.evidence import measured
from vit_theory.ledger.files import write_file

FOLDER = Path(__file__).resolve().parent.parent / "nbs" / "pictures"
SIZE = {"width": 3.6, "height": 2.4}


def samples():
    """A: samples needed for zero error against the share of relevant tokens, with trained and with
    uniform attention."""
    figure, ax = subplots(**SIZE)
    for id, arm, color, number, offset, side in (
        ("A-no-attention", "uniform attention", "red", 6, (-6, 4), "right"),
        ("A-sample-complexity", "trained attention", "blue", 3, (14, -6), "left"),
    ):
        data = measured(id)
        share = 80 / data.alpha.values
        needed = np.exp(np.log(data.n50).mean("seed")).values
        ax.loglog(share, needed, "o-", color=COLORS[color], markersize=4)
        ax.annotate(
            arm,
            (share[number], needed[number]),
            xytext=offset,
            textcoords="offset points",
            color=COLORS[color],
            ha=side,
        )
    ax.set(xlabel="tokens for each relevant one", ylabel="samples needed", ylim=(10, 1e8))
    return figure


def sets():
    """B: attention logits between patches before and after training, patches ordered by the sets
    they belong to."""
    data = measured("B-theorem-4.2")
    figure, axes = subplots(1, 2, width=SIZE["width"] / 2, height=SIZE["height"], sharey=True)
    shown = 24  # patches of the first six sets, stored set by set
    for ax, step, title in ((axes[0], 0, "before"), (axes[1], -1, "after training")):
        logits = data.A.isel(step=step).values[:shown, :shown]
        ax.imshow(
            np.where(np.eye(shown, dtype=bool), np.nan, logits), vmin=-1, vmax=4, cmap="viridis"
        )
        ax.set(title=title, xticks=[], yticks=[], xlabel="patch")
        ax.grid(False)
    axes[0].set_ylabel("patch")
    return figure


def convolution():
    """C: an image, its convolution, and what the attention layer makes of it."""
    data = measured("C-theorem-1", "quick").isel(channel=0)
    figure, axes = subplots(1, 3, width=SIZE["width"] / 3, height=SIZE["height"])
    largest = float(np.abs(data.convolved - data.attended).max())
    for ax, name, title in zip(
        axes, ("image", "convolved", "attended"), ("image", "convolution", "attention"), strict=True
    ):
        ax.imshow(data[name], cmap="gray")
        ax.set(title=title, xticks=[], yticks=[])
        ax.grid(False)
    axes[1].set_xlabel(f"largest difference of the two on the right: {largest:.0e}", x=0.5)
    return figure


def heads():
    """The front: a photograph, its convolution, and nine heads that look more and more sharply."""
    photo = torch.tensor(load_sample_image("flower.jpg")[100:260, 200:360]).double().mean(-1) / 255
    image = photo.unfold(0, 2, 2).unfold(1, 2, 2).mean((-2, -1))[None, None]
    conv = known_conv("emboss", channels=1)
    pictures = {"photograph": image, "its convolution": conv(image).detach()}
    for gap in (1, 3, 12):
        layer = conv_to_attention(conv, image_size=80, patch=8, scale=float(gap))
        pictures[f"attention, gap {gap}"] = layer.convolve(image).detach()
    figure, axes = subplots(1, 5, width=1.5, height=1.7)
    for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
        low, high = (0, 1) if title == "photograph" else (-0.3, 1.3)
        ax.imshow(picture[0, 0], cmap="gray", vmin=low, vmax=high)
        ax.set_title(title, fontsize=9)
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    return figure


TALL = 520  # pixels of a panel that its photograph shows at most
# the ink of the site's dark pages
DARK = "<style>html { color-scheme: dark; color: #ced6dd; }</style>"
CARDS = {"A": samples, "B": sets, "C": convolution, "heads": heads}  # name -> what draws it


def photographs():
    """The explorers' index: each panel as it starts, photographed in a browser, on a light page
    and, without a ground, in the dark."""
    sys.path.insert(0, str(FOLDER.parents[1] / "tests"))
    from browser import chromium

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 480})
        for name, widget in (
            ("selection", selection_explorer()),
            ("association", association_explorer()),
            ("convolution", convolution_explorer()),
            ("vit", vit_explorer()),
        ):
            text = widget._repr_mimebundle_()[0]["text/html"]
            for theme, ending in (("light", ""), ("dark", "-dark")):
                page.emulate_media(color_scheme=theme)
                page.set_content(text if theme == "light" else DARK + text)
                top = page.locator(".turn-pictures").bounding_box()
                top["height"] = min(top["height"], TALL)
                bare = theme == "dark"
                yield (
                    f"{name}{ending}",
                    page.screenshot(clip=top, full_page=True, omit_background=bare),
                )


@click.command(help=__doc__)
def main():
    for name, picture in photographs():
        path = FOLDER.parent / "explore" / "pictures" / f"{name}.png"
        path.write_bytes(picture)
        print(path)
    with style():
        for name, draw in CARDS.items():
            write_file(FOLDER / f"{name}.svg", to_svg(draw(), ground=True) + "\n")
            print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
