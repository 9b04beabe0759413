"""The moving average of the weights is evaluated and kept; training does not notice it."""

from typing import Any


from support.runs import logged, same, trained_weights


def test_averaged_weights_are_what_is_kept(run_small: Any) -> None:
    plain, averaged = run_small("train.ema=0"), run_small("train.ema=0.9")
    assert not same(trained_weights(plain), trained_weights(averaged))
    assert logged(plain, "class") == logged(averaged, "class")  # training does not notice
