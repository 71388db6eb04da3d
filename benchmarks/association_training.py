"""Cost of a full gradient step of the patch attention model against the number of patches, beside
plain PyTorch.

    \b
    python benchmarks/association_training.py

\b
One full-batch step on N = 2000 images with d = 16, float32, one thread, D from 16 to 400:
  ours          hand gradient of vit_theory.association, data with one row a feature: O(N D d + N
  D^2)
  autograd      the model as its formula reads, scale * softmax(A) X v, and torch.autograd: O(N D^2
  d)
  reordered     the same with the order of the products chosen by hand, scale * (X v) softmax(A)^T,
  and torch.autograd

All three compute the same loss and the same gradients, which is checked first.
"""

from functools import partial

import click
import torch
from side_by_side import compare, report, save
from torch.nn.functional import logsigmoid

from vit_theory.association import Partition, SpatialData, realistic
from vit_theory.association.training import features_first, gradient

SAMPLES = 2000
DIM = 16
SEED = 0


def autograd(model, x, y, reordered):
    A, v = (p.clone().requires_grad_() for p in (model.A, model.v))
    S = A.softmax(-1)
    O = model.scale * ((x @ v) @ S.T if reordered else (S @ x) @ v)
    loss = -logsigmoid(y * (O**model.power + model.nu * O).sum(1)).mean()
    return loss.detach(), *torch.autograd.grad(loss, (A, v))


@click.command(help=__doc__)
def main():
    table = []
    for side in (4, 6, 8, 12, 16, 20):
        generator = torch.Generator().manual_seed(SEED)
        draw = SpatialData(Partition.blocks(side, 2), DIM, q=min(0.4, 16 / side**2)).sample(
            SAMPLES, generator
        )
        model = realistic(side**2, DIM, generator=generator)
        features = features_first(draw.x)
        peers = {
            "ours": partial(gradient, features, draw.y, model),
            "autograd": partial(autograd, model, draw.x, draw.y, False),
            "reordered": partial(autograd, model, draw.x, draw.y, True),
        }
        expected = peers["ours"]()
        for call in peers.values():
            for mine, other in zip(expected, call(), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-6)
        table += [{"D": side**2, **row} for row in compare(peers, rounds=5)]
    report(table)
    what = (
        "one full-batch gradient step; ratio = peer / ours, median over rounds; "
        "jax was not compared"
    )
    save(
        "association_training",
        table,
        what=what,
        samples=SAMPLES,
        dim=DIM,
        seed=SEED,
        dtype="float32",
        threads=1,
    )


if __name__ == "__main__":
    main()
