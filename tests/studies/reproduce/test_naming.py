"""Runs and data sets are named by what they are."""

import json
from dataclasses import replace

from scob import methods
from scob.config import load_config, merge
from scob.studies.reproduce import naming, variants
from scob.studies.reproduce.lab import Lab
from scob.studies.reproduce.naming import identify, run_name


def test_the_same_settings_are_the_same_run_and_others_are_not(lab, tree, tmp_path):
    def name(variant, seed=0, where=lab):
        return run_name(where.id, where.base, where.config(variant, seed))

    chosen = {
        "gamma": variants.setting_rows("scob.gamma_cam", variants.GAMMAS)[0.5],
        "lambda": variants.setting_rows("scob.lambda_c", variants.LAMBDAS)[0.1],
        "t": variants.setting_rows("scob.negatives", variants.NEGATIVES)[1],
    }
    assert {name(v) for v in chosen.values()} == {name(variants.SCOB)}
    rows = [*variants.ABLATION.values(), *variants.OPTIMISATION.values(), variants.partial(variants.SCOB)]
    distinct = {json.dumps([v.changes], sort_keys=True) for v in rows}
    assert len({name(v) for v in rows}) == len(distinct) == 12
    assert name(variants.SCOB, 1) != name(variants.SCOB)
    elsewhere = Lab(merge(tree, {"train": {"epochs": 3}}), tmp_path)
    assert name(variants.SCOB, where=elsewhere) != name(variants.SCOB)
    # Where it runs, and settings of another method, change nothing.
    moved = Lab(merge(tree, {"data": {"workers": 7}, "train": {"log_every": 5}}), tmp_path)
    assert name(variants.SCOB, where=moved) == name(variants.SCOB)
    tuned = Lab(merge(tree, {"scob": {"tau": 0.5}}), tmp_path)
    assert name(variants.ROLE, where=tuned) == name(variants.ROLE)
    assert name(variants.SCOB, where=tuned) != name(variants.SCOB)
    pairs = replace(variants.SCOB, changes={**variants.SCOB.changes, "method": "pairs"})
    assert name(pairs, where=tuned) != name(pairs)  # it reads the settings of Scob


def test_a_prior_file_names_only_the_runs_that_read_it(tmp_path, monkeypatch):
    """By its contents. Other runs have the names they had before there were prior files."""
    hashed = []
    monkeypatch.setattr(naming, "_digest", lambda tree: hashed.append(tree) or "")
    file = tmp_path / "prior.csv"
    for number, method in enumerate(("role", "vlpl", "vlpl")):
        file.write_text(f"image,cat\na.png,{number}\n")
        config = load_config(None, [f"method={method}", f"labels.prior={file}"], methods.section_names())
        run_name("scenes", config, config)
    assert "prior" not in hashed[0]["labels"]
    assert len({hashed[1]["labels"]["prior"], hashed[2]["labels"]["prior"], str(file)}) == 3


def test_a_default_that_came_later_gives_a_new_name_and_others_do_not(monkeypatch):
    """An old run of `pairs` is not taken for one with today's defaults; runs of other methods keep their names."""
    hashed = []
    monkeypatch.setattr(naming, "_digest", lambda tree: hashed.append(tree) or "")
    for words in (["method=pairs"], ["method=pairs", "pairs.trust=0.3"], ["method=ll-r"], ["method=scob"]):
        config = load_config(None, words, methods.section_names())
        run_name("scenes", config, config)
    later = {"channels": 8192, "choice": 6.0, "rate": 2.0, "linear": True, "contrast": False}
    assert hashed[0]["pairs"] == later
    assert hashed[1]["pairs"] == {**later, "trust": 0.3}
    assert "ll-r" not in hashed[2] and "channels" not in hashed[3]["scob"]


def test_data_sets_are_known_by_their_layout_and_year(tmp_path):
    assert identify("scenes:40x64") == ("scenes", "scenes:40x64")
    for name, expected in (("VOC2007", "voc2007"), ("VOC2012seg", "voc2012"), ("flowers", "flowers")):
        (tmp_path / name / "JPEGImages").mkdir(parents=True)
        (tmp_path / name / "ImageSets" / "Main").mkdir(parents=True)
        assert identify(str(tmp_path / name), "voc") == (expected, name)
