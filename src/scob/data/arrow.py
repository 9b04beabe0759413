"""pyarrow, which Parquet files need. Imports nothing else of Scob's data: a light install predicts to Parquet too."""

from typing import Any

from scob.errors import UserError
from scob.installation import install_line


def pyarrow_module() -> Any:
    """pyarrow with its Parquet reader and writer, or a UserError that says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"Parquet and Arrow files need pyarrow: {install_line('parquet')}") from None
    return pyarrow
