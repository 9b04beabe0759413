"""The numbers of a table come from the runs."""

from types import SimpleNamespace

import pytest

from scob.model.network import Projector
from scob.studies.reproduce.tables import _numbers, parameters
from scob.training.model_folder import load_network
from scob.training.run_folder import RunFolder


def outcome_of(folder):
    run = RunFolder(folder)
    return SimpleNamespace(run=run, config=run.read_config())


def test_parameters_are_those_of_the_network_and_of_the_mapping_layers(run_small):
    plain, contrast = (outcome_of(run_small(word)) for word in ("scob.contrast=none", "scob.contrast=ipt"))
    network, _ = load_network(plain.run.model)
    assert parameters(plain) == pytest.approx(sum(p.numel() for p in network.parameters()) / 1e6)
    settings = contrast.config.model
    mapping = Projector(network.dimension, settings.projection, settings.projector)
    more = sum(p.numel() for p in mapping.parameters()) / 1e6
    assert parameters(contrast) == pytest.approx(parameters(plain) + more)


def test_one_number_per_seed():
    outcomes = [SimpleNamespace(number={"mAP": value, "OP": 2 * value}.__getitem__) for value in (1.0, 3.0)]
    assert _numbers(outcomes, ("mAP", "OP")) == {"mAP": [1.0, 3.0], "OP": [2.0, 6.0]}
