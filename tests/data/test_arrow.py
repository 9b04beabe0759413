"""pyarrow, or one sentence that says how to get it."""

import sys

import pytest

from scob.data.arrow import pyarrow_module
from scob.errors import UserError
from scob.installation import install_line


def test_parquet_can_be_read_and_written() -> None:
    pytest.importorskip("pyarrow")
    arrow = pyarrow_module()
    assert callable(arrow.parquet.ParquetFile) and callable(arrow.parquet.ParquetWriter)


def test_without_pyarrow_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError) as said:
        pyarrow_module()
    assert str(said.value) == f"Parquet and Arrow files need pyarrow: {install_line('parquet')}"
    assert "pip install pyarrow" in str(said.value)
