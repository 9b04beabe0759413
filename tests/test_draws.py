"""Keyed draws: the same on the host and on the device, uniform, and independent of order."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scob import draws

int64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(int64, min_size=1, max_size=20), st.integers(0, 2**63 - 1))
def test_host_and_device_mix_alike(keys: list[int], salt: int) -> None:
    array = np.array(keys, dtype=np.int64)
    there = draws.mix_tensor(torch.from_numpy(array), salt).numpy()
    np.testing.assert_array_equal(draws.mix(array, salt).view(np.int64), there)


def test_splitmix_is_the_published_one() -> None:
    # The first outputs of SplitMix64 seeded with 0 are the mix of 0, golden, 2 golden, ...
    seeds = (np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    assert [hex(int(v)) for v in draws.mix(seeds, 0)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(int64, min_size=2, max_size=20), st.integers(0, 2**63 - 1), st.integers(1, 5))
def test_uniform_of_a_key_does_not_depend_on_the_batch(keys: list[int], salt: int, count: int) -> None:
    batch = torch.tensor(keys)
    numbers = draws.uniform(batch, salt, count)
    assert numbers.shape == (len(keys), count)
    assert ((numbers >= 0) & (numbers < 1)).all()
    torch.testing.assert_close(draws.uniform(batch[1:2], salt, count), numbers[1:2], rtol=0, atol=0)
    torch.testing.assert_close(draws.uniform(batch, salt, 1), numbers[:, :1], rtol=0, atol=0)


def test_uniform_is_uniform_and_lanes_are_independent() -> None:
    x = draws.uniform(torch.arange(20000), 7, 2)
    assert abs(float(x.mean()) - 0.5) < 0.01
    assert torch.histc(x[:, 0], 10, 0, 1).sub(2000).abs().max() < 200
    assert abs(float(torch.corrcoef(x.T)[0, 1])) < 0.03


def test_keys_of_texts_are_fixed() -> None:
    assert draws.text_key("000005") == -6034153044366168105
    assert draws.seed_key(0, 1, "flip") == 737767568121797393
    assert draws.seed_key(0, 11, "flip") != draws.seed_key(0, 1, "1flip")
    assert draws.text_key("bad\udcff.jpg") != draws.text_key("bad.jpg")  # a file name that is not UTF-8


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(0, 9))
def test_permutation_is_one(count: int, seed: int) -> None:
    order = draws.permutation(count, seed, "epoch")
    assert sorted(order.tolist()) == list(range(count))
    np.testing.assert_array_equal(order, draws.permutation(count, seed, "epoch"))
