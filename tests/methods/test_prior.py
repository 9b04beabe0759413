"""Methods with a prior file: they ask for it, and it never overrules a label."""

from collections.abc import Callable
from typing import Any

import pytest

from scob.errors import UserError


@pytest.mark.parametrize("name", ["vlpl", "aevlp"])
def test_the_file_is_asked_for(experiment_of: Callable[..., Any], name: str) -> None:
    with pytest.raises(UserError, match=rf"method={name} needs .*labels\.prior=FILE"):
        experiment_of(f"method={name}")


def test_pseudo_positives_are_unknown_labels_of_images(experiment_of: Callable[..., Any], prior_word: str) -> None:
    method = experiment_of("method=aevlp", prior_word, "labels.kind=partial", "labels.fraction=0.3").method
    believed, observed = method.problem.prior >= 0.5, method.problem.observed
    pseudo = method.pseudo_positive
    assert bool((believed & (observed != 0)).any()), "some are observed"
    assert not bool((pseudo & (observed != 0)).any()) and not bool(pseudo[-1].any())
    assert int(pseudo.sum()) == int((believed & (observed == 0))[:-1].sum())
    assert f"{float(pseudo.sum()) / method.problem.images:.2f} pseudo-positives per image" in method.remarks()[0]


def test_scores_that_make_nothing_positive_are_pointed_out(experiment_of: Callable[..., Any], prior_word: str) -> None:
    (remark,) = experiment_of("method=aevlp", prior_word, "aevlp.limit=2").method.remarks()
    assert "no unknown label is positive" in remark
