"""What people hand over on their first day: refused with the argument, its value and the remedy, as users run it."""

import subprocess
import sys

import pytest

PRELUDE = """
import torch
from vit_theory.association import *
from vit_theory import association as B, selection as A
p = Partition.blocks(4, 2)
d = SpatialData(p, 8, 0.1)
s = d.sample(20, generator=torch.Generator().manual_seed(0))
m = PatchAttention(torch.zeros(16, 16), torch.ones(8))
t = A.TokenData().sample(4, generator=torch.Generator().manual_seed(0))
v = A.initial_model(t.mu)
x, y = s.x, s.y
descent = dict(alpha=0.05, kappa=1.5, steps=5, lr_v=1e-3, lr_A=1.0)
"""
REFUSED = {
    "SpatialData(None, 8, 0.1)": "partition=None",
    "SpatialData([[0, 1], [2, 3]], 8, 0.1)": "partition=[[0, 1], [2, 3]] is not Partition",
    "SpatialData(p, 2.5, 0.1)": "dim=2.5",
    "SpatialData(p, 8, 0.1, sigma=abs)": "sigma=<built-in function abs> is not a finite number, 0 or larger",
    "A.TokenData(noise=None)": "noise=None is not a finite number, 0 or larger",
    "A.TokenData(spurious_rate='high')": "spurious_rate='high' is not a number from 0 to 1",
    "d.sample(-1)": "n=-1 is not a whole number from 1",
    "d.sample(3, generator=0)": "generator=0 is not",
    "d.label_function(x[None])": "x must be images of real numbers, [n, D=16, d=8], not (1, 20, 16, 8)",
    "d.label_function(x.tolist())": "x must be images of real numbers, [n, D=16, d=8]",
    "error_rate(y, (y + 1) / 2)": "y must hold labels -1 or +1, not [0.0]; of 0 and 1, 2 * y - 1 makes them",
    "error_rate(y, y[:5])": "score has 20 images, y has 5: give both for the same ones",
    "logistic_gradient(m, x, y[:5])": "is not Float[Tensor, 'n'], where n=20",
    "logistic_gradient(m, x[:, :5], y)": "[n, D=16, d=8]",
    "fit(None, x, y, steps=1, lr_v=1, lr_A=1)": "model=None is not PatchAttention",
    "fit(m, x, y, steps=1, lr_v=(1,), lr_A=1)": "lr_v=(1,) is not a finite number",
    "regression_error(16, 4, 0.1, train=-1)": "train=-1 is not a whole number from 1",
    "association(None, p)": "scores=None holds no numbers; give a tensor",
    "association(torch.zeros(4, 4), None)": "partition=None",
    "set_mass([[0.0]], p)": "A=[[0.0]] is not Float[Tensor, 'D D']",
    "sort_by_set(torch.zeros(4, 4), p)": "the partition has D=16 patches",
    "realistic(0, 3)": "patches=0",
    "reduced_descent(16, 4, 0.1, **descent | {'alpha': (0.05,)})": "alpha=(0.05,) is not a finite number",
    "plot_partitions({})": "give one or more, as [partition] or {name: partition}",
    "plot_scores([m.A])": "is not dict[str, Float[Tensor, 'D D']]",
    "A.attention_mass(v, None)": "data=None is not TokenSample",
    "A.evaluate(v, (t.x, t.y))": "is not TokenSample",
    "A.fit(v, t.x, (1,), steps=1, batch=2, lr=1.0)": "y=(1,) is not Float[Tensor, 'g N'], where g=1, N=4",
}


@pytest.fixture(scope="module")
def said():
    """What each call says in a program of its own: in these tests the check of types would come first."""
    lines = [PRELUDE]
    for call in REFUSED:
        lines += ["try:", f"    {call}", "    print('accepted')"]
        lines += ["except (ValueError, TypeError) as error:", "    print(*str(error).splitlines())"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(REFUSED, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_wrong_is_named(said, call):
    assert REFUSED[call] in said[call], said[call]


def test_what_is_meant_is_taken():
    """One partition in a list; scores as nested lists; learning at a size where rates by guessing give nothing."""
    from vit_theory.association import Partition, association, plot_partitions, reduced_descent, scaled_rates

    p = Partition([[0, 1], [2, 3]])
    assert len(plot_partitions([p, p]).axes) == 2
    assert association((p.label[:, None] == p.label).float(), p).exact
    path = reduced_descent(4096, 4, 10 / 4096, **scaled_rates(4096), steps=300, method="monte_carlo", draws=1000)
    assert path.error[0] > 0.1 and path.error[-1] < 0.01
    guess = {"alpha": 0.05, "kappa": 1.5, "lr_v": 1e200, "lr_A": 1.0}
    with pytest.warns(RuntimeWarning, match=r"scaled_rates\(4096\)"):
        reduced_descent(4096, 4, 10 / 4096, **guess, steps=300, method="monte_carlo", draws=100)
