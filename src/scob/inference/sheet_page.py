"""The contact sheet as one HTML page that fetches nothing."""

import base64
import io
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from PIL import Image

from scob.inference.overlays import NOWHERE
from scob.inference.sheet import Sheet


def sheet_page(sheet: Sheet) -> str:
    """The page; names are escaped, and every picture says what it shows."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data_url"] = data_url
    template = environment.from_string((files("scob.inference") / "sheet.html.jinja").read_text("utf-8"))
    return template.render(sheet=sheet, nowhere=NOWHERE).encode("utf-8", "replace").decode() + "\n"


def data_url(picture: Image.Image) -> str:
    """A picture inside the page."""
    file = io.BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
