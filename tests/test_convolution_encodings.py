"""T5's buckets against numbers counted by hand and against the code of T5 itself."""

import pytest
import torch

from vit_theory.convolution.encodings import bucket


def test_bucket_by_hand():
    """Distances up to 7 have a bucket each, then eight that grow; 16 are for the keys behind, 16
    for those ahead."""
    behind = bucket(-torch.arange(8)).tolist()
    assert behind == list(range(8))
    # 8 (128/8)^(j/8): the first distance of each of the eight
    first = [8, 12, 16, 23, 32, 46, 64, 91]
    assert bucket(-torch.tensor(first)).tolist() == list(range(8, 16))
    assert bucket(-(torch.tensor(first) - 1)).tolist() == list(range(7, 15))


def test_the_last_bucket_takes_all_that_is_farther():
    """The clamp: nothing beyond 128 has a bucket of its own, and none of the other direction's is
    taken."""
    far = torch.tensor([91, 127, 128, 129, 200, 10_000])
    assert set(bucket(-far).tolist()) == {15} and set(bucket(far).tolist()) == {31}
    assert sorted(set(bucket(torch.arange(-300, 301)).tolist())) == [*range(16), *range(17, 32)]


def test_bucket_is_that_of_t5():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distance = torch.arange(-1000, 1001)
    for buckets, most in ((32, 128), (16, 64), (8, 20)):
        theirs = t5.T5Attention._relative_position_bucket(distance, True, buckets, most)
        assert torch.equal(bucket(distance, buckets, most), theirs)
