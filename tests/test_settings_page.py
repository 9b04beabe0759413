"""docs/settings.md is what the settings say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("settings_page", ROOT / "scripts" / "settings_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == module.page()
