"""The model of paper A, its gradient and its training: oracles, traps."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.selection import (
    ShallowViT,
    TokenData,
    attention_mass,
    evaluate,
    fit,
    hinge_gradient,
    initial_model,
)
from vit_theory.selection.token_removal import (
    keep_by_attention,
    keep_oracle,
    keep_random,
    keep_top,
    received_attention,
)
from vit_theory.selection.training import draw_setting

NAMES = ("W_Q", "W_K", "W_V", "W_O")


def random_model(g=3, d=4, m_b=5, m_a=6, m=8, positions=1, seed=0, dtype=torch.float64):
    r = torch.Generator().manual_seed(seed)
    w = [
        torch.randn(g, *shape, generator=r, dtype=dtype)
        for shape in ((m_b, d), (m_b, d), (m_a, d), (m, m_a), (positions, m))
    ]
    return ShallowViT(*w[:4], w[4].sign() / m**0.5)


def random_samples(g=3, b=10, L=7, d=4, seed=1, dtype=torch.float64):
    r = torch.Generator().manual_seed(seed)
    x = torch.randn(g, b, L, d, generator=r, dtype=dtype)
    y = torch.randn(g, b, generator=r, dtype=dtype).sign()
    keep = torch.rand(g, b, L, generator=r) < 0.6
    keep[..., 2] = True
    return x, y, keep


def autograd(model, x, y, **options):
    weights = {name: getattr(model, name).clone().requires_grad_() for name in NAMES}
    loss = (1 - y * replace(model, **weights)(x, **options)).clamp(min=0).mean(1)
    slopes = torch.autograd.grad(
        loss.sum(), list(weights.values()), allow_unused=True, materialize_grads=True
    )
    return loss.detach(), dict(zip(NAMES, slopes, strict=True))


def test_gradient_of_a_view_of_the_data_leaves_its_arguments_alone():
    model, (x, y, _) = random_model(), random_samples(L=9)
    view = x.flip(1)[:, :, 1:8]
    given = (*vars(model).values(), view, y)
    before = [w.clone() for w in given]
    torch.testing.assert_close(
        hinge_gradient(model, view, y)[1].W_K,
        autograd(model, view, y)[1]["W_K"],
        rtol=0,
        atol=1e-12,
    )
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))


def test_zero_hidden_weights_are_dead():
    model, (x, y, _) = random_model(), random_samples()
    slopes = hinge_gradient(replace(model, W_O=model.W_O * 0), x, y)[1]
    assert not any(getattr(slopes, name).any() for name in NAMES)  # ReLU'(0) = 0


def test_inactive_hinge_has_no_gradient_and_huge_logits_stay_finite():
    model, (x, y, _) = random_model(), random_samples()
    loss, slopes = hinge_gradient(replace(model, W_O=model.W_O * 1e6), x, model(x).sign())
    assert not loss.any() and not slopes.W_O.any() and not slopes.W_Q.any()
    loss, slopes = hinge_gradient(replace(model, W_Q=model.W_Q * 1e4), x, y)
    assert loss.isfinite().all() and all(getattr(slopes, name).isfinite().all() for name in NAMES)


@pytest.mark.parametrize("removal", [False, True])
def test_samples_in_pieces_give_the_same_gradient(monkeypatch, removal):
    import vit_theory.selection.fast_gradient as engine

    model, (x, y, keep) = random_model(positions=7), random_samples()
    options = {"keep": keep} if removal else {}
    loss, slopes = hinge_gradient(model, x, y, **options)
    monkeypatch.setattr(engine, "CACHE", 4000)
    in_pieces, same = hinge_gradient(model, x, y, **options)
    torch.testing.assert_close(in_pieces, loss, rtol=0, atol=1e-12)
    for name in NAMES:
        torch.testing.assert_close(getattr(same, name), getattr(slopes, name), rtol=0, atol=1e-12)


def test_large_logits_are_exact_and_leave_the_company_alone():
    model, (x, y, _) = random_model(), random_samples()
    calm = hinge_gradient(model, x, y)[1]
    factor = torch.tensor([1.0, 300.0, 1.0], dtype=torch.float64)[:, None, None]
    large = replace(model, W_Q=model.W_Q * factor)
    slopes = hinge_gradient(large, x, y)[1]
    expected = autograd(large, x, y)[1]
    for name in NAMES:
        torch.testing.assert_close(getattr(slopes, name), expected[name], rtol=1e-10, atol=1e-10)
        assert torch.equal(getattr(slopes, name)[[0, 2]], getattr(calm, name)[[0, 2]])


def setting(trials=4, train=40, seed=0, **initial):
    data = TokenData().sample(train + 50, trials, generator=torch.Generator().manual_seed(seed))
    learn, judge = data.split(train)
    return learn, judge, initial_model(data.mu, seed=seed, **({"scale": 0.5} | initial))


@pytest.mark.parametrize("attention", ["trained", "frozen", "uniform"])
@pytest.mark.parametrize("batch", [10, 40])
def test_a_trial_alone_is_the_trial_in_company(attention, batch):
    learn, _, start = setting()
    options = {
        "steps": 25,
        "batch": batch,
        "lr": 0.3,
        "attention_lr": 1.0,
        "attention": attention,
        "seed": 7,
    }
    model, history = fit(start, learn.x, learn.y, **options)
    one = ShallowViT(*(w[2:3] for w in (start.W_Q, start.W_K, start.W_V, start.W_O, start.a)))
    alone, history_alone = fit(one, learn.x[2:3], learn.y[2:3], first=2, **options)
    for name in NAMES:
        torch.testing.assert_close(
            getattr(alone, name)[0], getattr(model, name)[2], rtol=1e-4, atol=1e-6
        )
    torch.testing.assert_close(history_alone["loss"][0], history["loss"][2], rtol=1e-4, atol=1e-6)
    if attention != "trained":
        assert torch.equal(model.W_Q, start.W_Q) and torch.equal(model.W_K, start.W_K)


def test_fit_is_plain_descent_and_leaves_its_argument_alone():
    learn, _, start = setting(trials=2)
    given = (start.W_O, learn.x, learn.y)
    before = [w.clone() for w in given]
    model, history = fit(start, learn.x, learn.y, steps=6, batch=40, lr=0.5, attention_lr=2.0)
    fit(start, learn.x, learn.y, steps=5, batch=10, lr=0.5)
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))
    weights = {name: getattr(start, name) for name in NAMES}
    for _ in range(6):
        _, slopes = autograd(replace(start, **weights), learn.x, learn.y)
        weights = {
            n: w - (2.0 if n in ("W_Q", "W_K") else 0.5) * slopes[n] for n, w in weights.items()
        }
    for name in NAMES:
        torch.testing.assert_close(getattr(model, name), weights[name], rtol=1e-4, atol=1e-6)
    assert history["loss"].shape == (2, 7)


def test_attention_lr_is_lr_by_default_and_rates_are_per_trial():
    learn, _, start = setting(trials=3)
    same, _ = fit(start, learn.x, learn.y, steps=5, batch=10, lr=0.4)
    named, _ = fit(start, learn.x, learn.y, steps=5, batch=10, lr=0.4, attention_lr=0.4)
    assert torch.equal(same.W_Q, named.W_Q)
    mixed, _ = fit(start, learn.x, learn.y, steps=5, batch=10, lr=torch.tensor([0.4, 0.0, 0.4]))
    assert torch.equal(mixed.W_O[1], start.W_O[1]) and torch.allclose(
        mixed.W_O[[0, 2]], same.W_O[[0, 2]], atol=1e-6
    )


def test_chunks_do_not_matter(monkeypatch):
    import vit_theory.selection.fast_gradient as engine
    import vit_theory.selection.training as training

    learn, _, start = setting(trials=5)
    options = {"steps": 12, "batch": 8, "lr": 0.3, "stop": lambda now: now["margin"] > 0.2}
    whole, history = fit(start, learn.x, learn.y, **options)
    for module in (engine, training):  # one trial and four of its eight samples at a time
        monkeypatch.setattr(module, "bytes_per_sample", lambda *_: engine.CACHE // 4)
    pieces, history_of_pieces = fit(start, learn.x, learn.y, **options)
    assert (
        torch.allclose(whole.W_O, pieces.W_O, atol=1e-6)
        and history.steps.tolist() == history_of_pieces.steps.tolist()
    )


def test_mass_is_counted_as_defined():
    learn, _, start = setting(trials=2, train=6)
    P = start.attention_map(learn.x)
    relevant = learn.pattern == (learn.y < 0).long()[..., None]
    for g in range(2):
        every = torch.stack([P[g, b][:, relevant[g, b]].sum(-1) for b in range(6)])
        torch.testing.assert_close(attention_mass(start, learn)[g], every.mean())
        by_hand = torch.stack([every[b][relevant[g, b]].mean() for b in range(6)]).mean()
        torch.testing.assert_close(attention_mass(start, learn, queries="relevant")[g], by_hand)


def test_no_output_is_an_error_and_so_is_nan():
    learn, _, start = setting(trials=2)
    dead = replace(start, W_O=start.W_O * 0)
    assert evaluate(dead, learn)["error"].tolist() == [1, 1]
    assert evaluate(replace(start, W_O=start.W_O * torch.nan), learn)["success"].tolist() == [0, 0]


def test_choices_of_tokens():
    learn, judge, start = setting(trials=2)
    g = torch.Generator().manual_seed(0)
    for keep in (
        keep_random(judge, count=8, generator=g),
        keep_oracle(judge, rate=0.4, generator=g),
    ):
        assert keep.dtype == torch.bool and (keep.sum(-1) == 8).all()
    assert (keep_oracle(judge, count=6, generator=g) == judge.relevant).all()
    top = keep_by_attention(start, judge, count=3, generator=g)
    scores = start.attention_map(judge.x).mean(2)  # the column: attention received
    torch.testing.assert_close(received_attention(start, judge.x), scores)
    assert (scores.masked_fill(~top, 9).amin(-1) >= scores.masked_fill(top, -1).amax(-1)).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(3, 6),
    st.integers(1, 4),
    st.sampled_from([0, 1]),
    st.integers(0, 10**6),
)
def test_the_gradient_is_balanced(m_a, m_b, L, d, shared, seed):
    """What one matrix gains the next one gains: the output depends on W_Q^T W_K, and on W_O and W_V
    as on one after the other."""
    model = random_model(2, d, m_b, m_a, 4, 1 if shared else L, seed)
    x, y, _ = random_samples(2, 6, L, d, seed + 1)
    _, g = hinge_gradient(model, x, y)
    for left, right in (
        (g.W_Q @ model.W_Q.mT, model.W_K @ g.W_K.mT),
        (model.W_O.mT @ g.W_O, g.W_V @ model.W_V.mT),
    ):
        assert (left - right).abs().max() <= 1e-11 * (1 + float(left.abs().max()))


@pytest.mark.parametrize("queries", ["all", "relevant"])
def test_mass_is_a_mean_over_the_kept_queries(queries):
    """Queries that are removed have no share in the mean, which a divisor over all tokens would
    give them."""
    learn, _, start = setting(trials=2, train=6)
    keep = torch.rand(learn.pattern.shape, generator=torch.Generator().manual_seed(3)) < 0.6
    keep |= learn.relevant & (learn.relevant.cumsum(-1) == 1)  # a relevant token stays
    P = start.attention_map(learn.x, keep)
    asked = keep if queries == "all" else keep & learn.relevant
    by_hand = torch.zeros(2, 6)
    for g, b in product(range(2), range(6)):
        by_hand[g, b] = P[g, b][asked[g, b]][:, learn.relevant[g, b]].sum(-1).mean()
    expected = by_hand.mean(-1)
    torch.testing.assert_close(attention_mass(start, learn, queries, keep), expected)


def test_a_rate_for_each_trial_and_no_more():
    train, _, model = draw_setting(TokenData(), 8, 4, 2, 0)
    for rates in (
        {"lr": torch.tensor([0.1, 0.2, 5.0])},
        {"lr": 0.1, "attention_lr": torch.ones(4)},
    ):
        with pytest.raises(ValueError, match="one for each of the 2 trials"):
            fit(model, train.x, train.y, steps=1, batch=8, **rates)


def test_a_sample_without_a_query_has_no_mass():
    train, _, model = draw_setting(TokenData(), 8, 4, 2, 0)
    keep = ~train.relevant
    with pytest.raises(ValueError, match="leave a sample without a query"):
        attention_mass(model, train, queries="relevant", keep=keep)


@pytest.mark.parametrize(
    "L, rate, kept", [(25, 0.28, 7), (50, 0.14, 7), (100, 0.55, 55), (20, 0.41, 9)]
)
def test_a_rate_of_tokens_is_not_rounded_twice(L, rate, kept):
    scores = torch.rand(1, 2, L)
    assert (keep_top(scores, None, rate, torch.Generator()).sum(-1) == kept).all()


def test_a_tiny_rate_keeps_one_token():
    g = torch.Generator().manual_seed(0)
    data = TokenData().sample(4, trials=2, generator=g)
    for keep in (keep_random, keep_oracle):
        assert (keep(data, rate=1e-12, generator=g).sum(-1) == 1).all()
