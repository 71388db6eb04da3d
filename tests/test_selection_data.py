"""The data of paper A: counts, laws, labels, randomness."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.selection import attention_mass, initial_model
from vit_theory.selection.collapse import collapse, collapsed_mass
from vit_theory.selection.data import TokenData
from vit_theory.selection.kinds import Kinds, merge

BACKGROUNDS = ("iid", "single", "equal", "neutral")
NOISE_LAWS = ("gaussian", "sphere", "uniform")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def counts(sample, patterns):
    return torch.nn.functional.one_hot(sample.pattern, patterns).sum(2)


@settings(max_examples=30, deadline=None)
@given(
    background=st.sampled_from(BACKGROUNDS),
    relevant=st.integers(1, 6),
    less=st.integers(1, 6),
    more=st.integers(0, 9),
    patterns=st.integers(4, 8),
    seed=st.integers(0, 99),
)
def test_counts_are_exact_and_labels_decided(background, relevant, less, more, patterns, seed):
    confusion = max(0, relevant - less)
    mass = more // 2 if background == "neutral" else 0
    if background == "neutral" and mass == 0:
        return
    data = TokenData(
        relevant + confusion + more, relevant, confusion, patterns, 8, 0.1, background, mass=mass
    )
    sample = data.sample(7, trials=2, generator=generator(seed))
    c = counts(sample, patterns)
    of_label = (sample.y < 0).long()[..., None]
    assert (c.gather(2, of_label) == relevant).all() and (
        c.gather(2, 1 - of_label) == confusion
    ).all()
    assert (sample.relevant.sum(2) == relevant).all()
    assert (torch.sign(c[..., 0] - c[..., 1]) == sample.y).all()  # the majority vote, no ties
    if background == "neutral":
        assert ((c[..., 2:-1] == mass).sum(-1) == 1).all() and (c[..., -1] == more - mass).all()
    if background == "equal":
        assert (c[..., 2:] == c[:1, :1, 2:]).all()
    if background == "single":
        assert ((c[..., 2:] > 0).sum(-1) <= 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_types_and_shapes_of_the_contract(dtype):
    torch.set_default_dtype(dtype)
    try:
        sample = TokenData(20, 6, 2, 5, 10, 0.1, "iid").sample(30, trials=3, generator=generator())
    finally:
        torch.set_default_dtype(torch.float32)
    assert (
        sample.x.shape == (3, 30, 20, 10)
        and sample.y.shape == (3, 30)
        and sample.x.dtype == sample.y.dtype == dtype
    )
    assert set(sample.y.unique().tolist()) == {-1, 1} and sample.y.sum(1).tolist() == [0, 0, 0]
    assert sample.pattern.shape == (3, 30, 20) and sample.pattern.dtype == torch.int64
    torch.testing.assert_close(
        sample.mu @ sample.mu.mT, torch.eye(5, dtype=dtype).expand(3, 5, 5), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_one_trial_is_the_first_of_three(background):
    data = TokenData(
        background=background, mass=4 if background == "neutral" else 0, patterns=6, spurious=0
    )
    one, three = (data.sample(9, trials=n, generator=generator(5)) for n in (1, 3))
    assert torch.equal(one.x[0], three.x[0]) and torch.equal(one.pattern[0], three.pattern[0])
    rest = data.sample(9, trials=2, first=1, generator=generator(5))
    assert torch.equal(rest.x, three.x[1:])


def test_every_call_and_every_trial_has_patterns_of_its_own():
    state = torch.get_rng_state()
    g = generator()
    first, second = (TokenData().sample(4, trials=2, generator=g) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())  # nothing touches the global state
    assert not torch.allclose(first.mu[0], first.mu[1]) and not torch.allclose(first.mu, second.mu)


def test_iid_background_is_uniform_and_positions_are_exchangeable():
    sample = TokenData(patterns=5).sample(4000, generator=generator())
    share = counts(sample, 5)[0, :, 2:].double().mean(0) / 12
    assert (share - 1 / 3).abs().max() < 0.01
    assert (sample.relevant[0].double().mean(0) - 0.3).abs().max() < 0.03


def test_noisy_tokens_are_irrelevant_ones():
    sample = TokenData(noisy=5, noisy_noise=3.0).sample(40, trials=2, generator=generator())
    assert (sample.noisy.sum(-1) == 5).all() and (sample.pattern[sample.noisy] >= 2).all()


def test_all_tokens_discriminative_needs_no_background():
    sample = TokenData(tokens=5, relevant=3, confusion=2, patterns=2, dim=4).sample(
        4, generator=generator()
    )
    assert (sample.pattern < 2).all()


def test_a_label_has_one_pattern():
    """Pattern 0 is that of label +1, pattern 1 that of label -1: where a label has two, samples and
    kinds are refused."""
    sample = TokenData(relevant=6, confusion=0).sample(4, generator=generator())
    # label +1 takes patterns 0 and 3, as if both were its own
    pattern = torch.where((sample.pattern == 0) & (sample.y > 0)[..., None], 3, sample.pattern)
    with pytest.raises(
        ValueError, match="2 samples have no token of their label's pattern.*no label has two"
    ):
        replace(sample, pattern=pattern)
    two = torch.tensor(
        [[0.3, 0, 0, 0, 0.7], [0, 0.3, 0, 0, 0.7], [0, 0, 0.3, 0, 0.7], [0, 0, 0, 0.3, 0.7]]
    )
    with pytest.raises(ValueError, match="no label has two"):
        Kinds(two, torch.tensor([1.0, 1.0, -1.0, -1.0]))


def test_mass_of_merged_samples_is_that_of_the_tokens():
    data = TokenData(relevant=4, confusion=2, noise=0.0, background="equal")
    sample = data.sample(20, generator=generator())
    model = initial_model(sample.mu, seed=0, scale=1.5)
    merged = collapsed_mass(collapse(model, sample.mu), merge(sample)[0])
    torch.testing.assert_close(merged, attention_mass(model, sample))
