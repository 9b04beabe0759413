"""Coverage-guided fuzzing of one target: `python tests/fuzz/run_atheris.py label_table -runs=1000000`.

Needs `pip install atheris` (not a dependency of Scob). It continues after a finding: the first input of each kind
is kept in `--findings FOLDER`, named after the exception and the line of Scob that raised it.
"""

import hashlib
import os
import sys
import traceback
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.scratch import scratch_home

PARSERS = ["scob", "csv", "json", "yaml", "xml", "pycocotools", "pydantic"]


def main() -> None:
    name, *options = sys.argv[1:]
    findings = Path("findings")
    if options and options[0] == "--findings":
        findings, options = Path(options[1]), options[2:]
    scratch_home()
    if child := os.fork():  # libFuzzer ends its process at once: this one removes the scratch folder
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    import torch  # noqa: F401 (before the instrumentation: only the parsers are followed)

    with atheris.instrument_imports(include=PARSERS):
        from fuzz.parsers import PARSERS as TARGETS
        from fuzz.parsers import seeds_of
        from fuzz.targets import survives

        for seed in seeds_of(name):  # a target imports its parser when it is called
            survives(TARGETS[name], seed)

    corpus = findings / "corpus" / name  # a later round continues from here
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds_of(name)):
        (corpus / f"seed{number}").write_bytes(seed)
    target = TARGETS[name]

    def one(data: bytes) -> None:
        try:
            survives(target, data)
        except Exception as error:
            keep(findings / name, data, error)

    atheris.Setup([sys.argv[0], str(corpus), "-rss_limit_mb=4096", "-timeout=20", *options], one)
    atheris.Fuzz()


def keep(folder: Path, data: bytes, error: Exception) -> None:
    """Write down the first input that leads to this exception at this place."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/scob/" in f.filename]
    place = f"{Path(frames[-1].filename).stem}-{frames[-1].lineno}" if frames else "outside"
    file = folder / f"{type(error).__name__}-{place}"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()[:8]
        print(f"finding {digest}: {type(error).__name__} at {place}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main()
