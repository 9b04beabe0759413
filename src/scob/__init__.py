"""Scob: learn to name everything in an image from one label per image.

The public interface is the names in `__all__`: one function for each verb of the command line (except `bench`), the
records they take and return, and a trained model, `Scob`. Each name is loaded when it is first used, so `import scob`
is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scob.algorithm.cam import MapSettings as MapSettings
    from scob.config import Config as Config
    from scob.config import load_config as load_config
    from scob.data.describe import check as check
    from scob.data.describe import describe as describe
    from scob.data.download import download as download
    from scob.data.readers import open_split as open_split
    from scob.data.report import data_report as data_report
    from scob.errors import UserError as UserError
    from scob.inference.evaluate import DataOptions as DataOptions
    from scob.inference.evaluate import evaluate as evaluate
    from scob.inference.evaluate_masks import evaluate_masks as evaluate_masks
    from scob.inference.explain import ExplanationFiles as ExplanationFiles
    from scob.inference.explain import explain as explain
    from scob.inference.hub import HubOptions as HubOptions
    from scob.inference.hub import push_to_hub as push_to_hub
    from scob.inference.model import InferenceOptions as InferenceOptions
    from scob.inference.model import Scob as Scob
    from scob.inference.onnx.export import ExportCheck as ExportCheck
    from scob.inference.onnx.export import export as export
    from scob.inference.predict import predict as predict
    from scob.inference.predictions import NamingRule as NamingRule
    from scob.inference.scoring import ScoringOptions as ScoringOptions
    from scob.inference.thresholds import thresholds as thresholds
    from scob.inference.web.serve import serve_model as serve_model
    from scob.labels import Labels as Labels
    from scob.recovery.reviewed import import_reviewed as import_reviewed
    from scob.recovery.suggest import SuggestionLimits as SuggestionLimits
    from scob.recovery.suggest import recover as recover
    from scob.recovery.web.server import serve as serve
    from scob.studies.compare import compare as compare
    from scob.studies.demo import demo as demo
    from scob.studies.reproduce.registry import reproduce as reproduce
    from scob.training.continuation import config_from_model as config_from_model
    from scob.training.finished_run import FinishedRun as FinishedRun
    from scob.training.prepare import prepare as prepare
    from scob.training.train import SharedParts as SharedParts
    from scob.training.train import train as train

_HOME = {
    "ExportCheck": "scob.inference.onnx.export",
    "Config": "scob.config",
    "ExplanationFiles": "scob.inference.explain",
    "FinishedRun": "scob.training.finished_run",
    "Labels": "scob.labels",
    "MapSettings": "scob.algorithm.cam",
    "NamingRule": "scob.inference.predictions",
    "DataOptions": "scob.inference.evaluate",
    "HubOptions": "scob.inference.hub",
    "InferenceOptions": "scob.inference.model",
    "Scob": "scob.inference.model",
    "ScoringOptions": "scob.inference.scoring",
    "SuggestionLimits": "scob.recovery.suggest",
    "SharedParts": "scob.training.train",
    "UserError": "scob.errors",
    "check": "scob.data.describe",
    "compare": "scob.studies.compare",
    "config_from_model": "scob.training.continuation",
    "demo": "scob.studies.demo",
    "data_report": "scob.data.report",
    "describe": "scob.data.describe",
    "download": "scob.data.download",
    "evaluate": "scob.inference.evaluate",
    "evaluate_masks": "scob.inference.evaluate_masks",
    "explain": "scob.inference.explain",
    "export": "scob.inference.onnx.export",
    "import_reviewed": "scob.recovery.reviewed",
    "load_config": "scob.config",
    "open_split": "scob.data.readers",
    "predict": "scob.inference.predict",
    "prepare": "scob.training.prepare",
    "push_to_hub": "scob.inference.hub",
    "recover": "scob.recovery.suggest",
    "reproduce": "scob.studies.reproduce.registry",
    "serve": "scob.recovery.web.server",
    "serve_model": "scob.inference.web.serve",
    "thresholds": "scob.inference.thresholds",
    "train": "scob.training.train",
}

__all__ = [*_HOME, "__version__"]

if not TYPE_CHECKING:  # a type checker must not take every name for granted

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        raise AttributeError(f"module 'scob' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOME})
