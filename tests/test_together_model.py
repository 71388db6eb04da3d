"""One model for three papers: the exact risk against a list of all samples, and what trainings rest
on."""

import numpy as np
import pytest
import torch
import xarray as xr

from vit_theory.together import WindowData, population_path, visible_border
from vit_theory.together.border import contrast
from vit_theory.together.claims.border import of_exact, of_one_head
from vit_theory.together.claims.limits import uniform_floor
from vit_theory.together.experiments import border as border_experiment
from vit_theory.together.experiments.border import (
    PARTS,
    border_factor,
    exact_border,
    lead,
    on_square,
    start_at,
    trained_border,
)
from vit_theory.together.experiments.limits import content_data, late_cell, translate_gap
from vit_theory.together.limits import first_push, hinge_slopes, training_states
from vit_theory.together.model import (
    WindowSample,
    all_samples,
    outputs,
    population_slopes,
    pushed,
    summed_activation,
)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("grid, window", [((1, 5), [0, 2]), ((2, 3), [1, 3]), ((1, 6), [0, 1, 3])])
@pytest.mark.parametrize("share, q, nu", [(1.0, 0.25, 0.0), (0.4, 0.6, 0.3), (0.0, 0.5, 0.1)])
def test_the_risk_is_that_of_all_samples(grid, window, share, q, nu):
    data = WindowData(grid, window, share, q, visible=0.7)
    x, y, weight = all_samples(data)
    b, theta, v = free = [
        value.double().requires_grad_()
        for value in (numbers(data.N), torch.tensor(0.6), torch.tensor(0.11))
    ]
    u = torch.stack([theta * 0, theta])[None]
    F = summed_activation(
        outputs(x, b[data.moved].softmax(1)[None], u, torch.stack([v, v * 0])[None], weight), nu
    )
    listed = weight @ (1 - y * F).square() / 2
    exact = population_slopes(data, b.detach().numpy(), theta.item(), v.item(), nu)
    torch.testing.assert_close(weight.sum().item(), 1.0)
    oracle = [listed.detach(), (weight @ (y * F)).detach(), *torch.autograd.grad(listed, free)]
    for ours, truth in zip(exact, oracle, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), truth, atol=1e-13, rtol=1e-10)


def test_overlaps_are_counted_on_the_torus():
    data = WindowData((3, 4), [0, 1, 4])
    places = {(0, 0), (0, 1), (1, 0)}
    for offset in range(12):
        moved = {((row + offset // 4) % 3, (column + offset % 4) % 4) for row, column in places}
        assert data.r[offset] == len(places & moved)
    assert data.inside.sum(1).eq(3).all() and data.inside.unique(dim=0).shape[0] == 12


def test_samples_follow_their_law():
    data = WindowData((1, 10), [0, 1, 2], 0.5, 0.4, visible=2.0, dim=4, noise=0.3)
    x, y, relevant = data.sample(20_000, torch.Generator().manual_seed(1))
    assert set(y.unique().tolist()) == {-1.0, 1.0} and abs(y.mean()) < 0.03
    assert (x[..., 0] * y[:, None])[relevant].eq(1).all() and x[..., 1].eq(2.0 * relevant).all()
    assert abs(relevant.double().mean() - 0.15) < 0.01 and abs(x[..., 2:].std() - 0.3) < 0.01
    assert abs((x[..., 0][~relevant].abs() == 1).double().mean() - 0.4) < 0.01
    again = data.sample(20_000, torch.Generator().manual_seed(1))
    assert torch.equal(again.x, x)


def test_a_training_leaves_its_start_alone_and_shares_nothing():
    data = WindowData((1, 6), [0, 1], 0.5)
    zero = torch.zeros(1, 2).double()
    path = list(
        training_states(
            data.sample(50),
            data,
            torch.zeros(1, 6).double(),
            zero,
            zero,
            steps=2,
            lr_u=1.0,
            lr_v=1e-3,
            nu=1.0,
        )
    )
    assert not zero.any() and not zero.requires_grad
    assert path[1][2].any() and not path[1][1].any()  # with v = 0 the key has no slope


@pytest.mark.parametrize("heads, nu", [(1, 0.0), (3, 0.4)])
def test_slopes_are_those_of_autograd(heads, nu):
    data = WindowData((2, 4), [0, 1], 0.6, visible=0.7, dim=5, noise=0.3)
    x, y, _ = data.sample(60, torch.Generator().manual_seed(0))
    b, u, v = (numbers(heads, size, seed=size).requires_grad_() for size in (8, 5, 5))
    S = b.softmax(1)[:, data.moved]
    slopes = torch.autograd.grad(
        (1 - y * summed_activation(outputs(x, S, u, 0.1 * v), nu)).relu().mean(), (S, u, v)
    )
    with torch.no_grad():
        ours = hinge_slopes(x, y, S, u, 0.1 * v, nu)
    torch.testing.assert_close((ours[0], ours[1], 0.1 * ours[2]), slopes)
    start = [value.detach() for value in (b, u, 0.1 * v)]
    after, *_ = list(
        training_states(WindowSample(x, y, x[..., 0] > 0), data, *start, steps=1, lr_b=1.0, nu=nu)
    )[1]
    F = summed_activation(outputs(x, b.softmax(1)[:, data.moved], u, 0.1 * v), nu)
    on_b = torch.autograd.grad((1 - y * F).relu().mean(), b)[0]
    torch.testing.assert_close(after[:, 1:], (b - on_b).detach()[:, 1:])


def test_many_heads_are_one_at_the_start():
    data = WindowData((1, 6), [0, 1], 0.5)
    S = numbers(1, 6, seed=2)[0][data.moved].softmax(1)[None]
    x = data.sample(7, torch.Generator().manual_seed(0)).x
    u = numbers(1, 2)
    v = numbers(1, 2, seed=1)
    parts = torch.tensor([[0.5], [0.3], [0.2]]).double()
    torch.testing.assert_close(
        outputs(x, S.repeat(3, 1, 1), u.repeat(3, 1), parts * v), outputs(x, S, u, v)
    )


def test_a_push_of_zero_has_the_border_zero():
    """With all marks in pairs rounding makes it negative."""
    data = WindowData((1, 6), [0, 1], share=1.0, q=1.0)
    assert visible_border(data, 1.0) == pytest.approx(0, abs=1e-6)


def test_the_border_is_free_of_value_and_visibility():
    values = [
        visible_border(WindowData((1, 8), [0, 1, 3], 0.5, visible=visible), 1.0)
        for visible in (0.1, 1.0, 3.0)
    ]
    assert max(values) - min(values) < 1e-12
    data = WindowData((1, 8), [0, 1], 0.5)
    small, large = (first_push(data, 1.0, v) for v in (0.1, 0.3))
    torch.testing.assert_close(large[0], 27 * small[0])
    torch.testing.assert_close(large[1], 27 * small[1])


def test_without_a_push_nothing_moves():
    path = population_path(
        WindowData((1, 8), [0, 1, 3]), kappa=0.0, v=0.02, steps=5, lr_b=1.0, lr_u=0.0
    )
    assert abs(path.b).max() < 1e-14


def test_a_first_phase_leaves_the_keys_alone():
    data = WindowData((1, 8), [0, 1, 3], 0.5)
    zero = torch.zeros(1, 2).double()
    path = population_path(data, kappa=1.0, v=0.02, steps=6, lr_b=1.0, lr_u=1.0, first=4)
    assert not path.theta[:5].any() and path.theta[5:].all()
    start = torch.eye(1, 8).double(), zero, zero + 0.02
    trained = list(
        training_states(data.sample(50), data, *start, steps=6, lr_b=1.0, lr_u=1.0, first=4)
    )
    assert [bool(u.any()) for _, u, _ in trained] == [False] * 5 + [True] * 2


def test_a_missing_border_of_one_run_blanks_the_mean_and_is_not_left_out():
    trained = xr.DataArray([[[1.0, 1.2]], [[0.9, np.nan]]], dims=("heads", "samples", "seed"))
    data = xr.Dataset({"trained": trained.assign_coords(heads=[1, 3]), "exact": 1.1})
    assert of_exact(data).sel(heads=1) == pytest.approx(1.0)
    assert of_exact(data).sel(heads=3).isnull() and of_one_head(data).isnull().all()
    assert of_one_head(data.fillna(0.6)).values == pytest.approx([0.7])


def test_the_lead_counts_what_is_gained_since_the_second_phase():
    path = [(0.0, 0.0), (0.0, 0.2), (0.1, 0.3), (0.2, 0.4), (0.3, 0.5)]  # content, position
    assert lead(path) == pytest.approx(np.log(0.1 / 0.3))  # position is past 1/4 first
    assert lead(path, first=1) == pytest.approx(np.log(0.3 / 0.3))  # since (0, .2) both gain .3
    assert lead(path, first=2) == pytest.approx(np.log(0.3 / 0.2))


FIRST = 5  # steps of positions alone
LAST = 2  # steps of both after them: too few to reach LEAD, so each of them counts


@pytest.fixture
def two_short_paths(monkeypatch):
    "Two visibilities, one on each side of the border after FIRST steps."
    factors = (0.5, 3.0)
    monkeypatch.setattr(border_experiment, "FACTORS", factors)
    monkeypatch.setattr(border_experiment, "STEPS", LAST)
    return factors


def exact_slopes(data, b, theta, v):
    slopes = population_slopes(data, b.numpy(), theta, v)
    return torch.from_numpy(slopes.b), slopes.theta


def slopes_of_50(data, b, theta, v):
    x, y, _ = data.sample(50, torch.Generator().manual_seed(0))
    b, theta = free = [b.clone().requires_grad_(), torch.tensor(theta).double().requires_grad_()]
    u = torch.stack([theta * 0, theta])[None]
    F = outputs(x, b.softmax(0)[data.moved][None], u, torch.tensor([[v, 0.0]]).double())
    on_b, on_theta = torch.autograd.grad((1 - y * summed_activation(F, 0.0)).relu().mean(), free)
    return on_b, float(on_theta)


def states_by_hand(data, v, lr, slopes):
    "(b, theta) at every step: b alone moves for FIRST steps, both for LAST."
    b = pushed(data, 1.0)
    theta = 0.0
    for step in range(FIRST + LAST):
        yield b, theta
        on_b, on_theta = slopes(data, b, theta, v)
        b = torch.cat([b[:1], (b - lr * on_b)[1:]])
        if step >= FIRST:
            theta = theta - lr * on_theta
    yield b, theta


def border_by_hand(factors, slopes):
    border, v, lr = start_at(1.0)
    leads = []
    for factor in factors:
        data = on_square(1.0, factor * border)
        states = list(states_by_hand(data, v, lr, slopes))
        (start, _), (end, theta) = states[FIRST], states[-1]
        gained = float(contrast(data, end) - contrast(data, start))
        leads.append(np.log(data.visible * theta / gained))
    return border_factor(leads)


def test_an_exact_border_after_a_first_phase_is_that_of_a_path_by_hand(two_short_paths):
    border = exact_border(1.0, first=FIRST)["exact"]
    assert border == pytest.approx(border_by_hand(two_short_paths, exact_slopes), abs=1e-9)


def test_a_trained_border_after_a_first_phase_is_that_of_a_path_by_hand(two_short_paths):
    border = trained_border(1.0, 1, 50, seed=0, first=FIRST)["trained"]
    assert border == pytest.approx(border_by_hand(two_short_paths, slopes_of_50), abs=1e-6)


def test_pushes_after_a_first_phase_are_equal_at_their_border(two_short_paths):
    "There content and position gain the same from one step, to first order."
    border, v, lr = start_at(1.0)
    data = on_square(1.0, border * exact_border(1.0, first=FIRST)["pushes"])
    b, theta = list(states_by_hand(data, v, lr, exact_slopes))[FIRST]
    on_b, on_theta = exact_slopes(data, b, theta, v)
    assert data.visible * on_theta == pytest.approx(float(contrast(data, on_b)))


def test_heads_of_equal_values_have_the_border_of_one(monkeypatch):
    monkeypatch.setitem(PARTS, 2, [0.5, 0.5])
    one, equal, unequal = (
        trained_border(1.0, heads, 200, seed=0)["trained"] for heads in (1, 2, 3)
    )
    assert equal == pytest.approx(one, abs=1e-6)
    assert unequal < 0.99 * one


def test_uniform_attention_errs_by_its_floor():
    data = content_data(0.4)
    x, y, _ = data.sample(20_000, torch.Generator().manual_seed(3))
    shown = y * x[..., 0].sum(1)
    error = (shown < 0).double().mean() + (shown == 0).double().mean() / 2
    assert error.item() == pytest.approx(uniform_floor(0.4), abs=4 * (0.25 / 20_000) ** 0.5)
    assert uniform_floor(1.0) < uniform_floor(0.5) < uniform_floor(0.0) == pytest.approx(0.5)


def test_a_long_path_tells_its_middle_from_its_end():
    half, end = late_cell(1, 0.0, 50, steps=300)["translate"][1]
    assert half < 0.01 < 1 < end  # a saddle, then a translate
    assert late_cell(1, 0.0, 50, steps=150)["translate"][1][1] == half


def test_a_translate_is_told_from_other_offsets():
    data = WindowData((1, 12), [0, 1, 4])
    b = torch.zeros(12).double().index_fill(0, torch.tensor([11, 0, 3]), 2.0).numpy()
    assert translate_gap(data, b) == 2.0
    b[3], b[4] = 0, 2
    assert translate_gap(data, b) == 0.0


def test_a_descent_that_leaves_the_numbers_is_refused():
    data = WindowData((1, 12), [0, 1, 4], share=0.6)
    with pytest.raises(ValueError, match="lower the rates, or v"):
        population_path(data, kappa=1.0, v=5.0, steps=5, lr_b=2.5, lr_u=0.5, lr_v=1e-3)
