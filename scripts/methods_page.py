"""Write docs/methods.md from the methods' own docstrings (a test checks that it is current)."""

import inspect
import re
import sys
import textwrap
from pathlib import Path

from scob import methods
from scob.methods import Method

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
SIGNS = {
    "gamma": "γ", "alpha": "α", "beta": "β", "epsilon": "ε", "lambda": "λ", "theta": "θ", "sigma": "σ", "delta": "δ",
    "tau": "τ", "mu": "μ",
}  # fmt: skip
INTRODUCTION = """# Methods

Every method that `scob compare` and `method=NAME` know, in the words of its source file. p is the predicted probability
of a class, x its logit (p = sigmoid(x)), L the number of classes, k the expected number of classes in an image. A label
is +1 (present), -1 (absent) or 0 (unknown). A loss is a mean over the classes and over the images unless it says
otherwise.

Compare any of them on your own data, with the same images and the same observed labels:

```
scob compare an role scob full --data scenes
```

`scob compare --list` prints this list. [Settings](settings.md) has each method's own settings, and
[sixteen methods on VOC 2007](examples/compare-voc2007.md) their results. [Adding a method](adding-a-method.md) is one
file.
"""
SCOB = """Semantic contrastive bootstrapping, Algorithm 1. Each iteration estimates, then maximises:

1. **E-step.** The gradient of each observed class's score weighs the channels of the feature map (Eq. 2); the map is
   averaged over a window and cut at γ<sub>CAM</sub> (Eq. 3). The result is a mask of the cells that show the class.
2. **Labels.** Every unobserved label has an estimate that is learned together with the network. Predictions are
   fitted to the estimates and the estimates to the predictions, each with the observed positives, and both are held
   near k positives per image (Eq. 11-12). This is L<sub>class</sub>, the loss of ROLE.
3. **Contrast.** The masked features of an image are a query. Its positive key is another image with the same label, its
   negatives the most confident nodes of every other class in the instance priority tree (Eq. 8). Keys come from an
   encoder that follows the network slowly (Eq. 13).

With `scob.contrasted=0.5`, steps 1 and 3 take half of each batch's images, which is faster and about as accurate.

The network reads the backbone's last two stages with two semantic masked transformers. [How we read the
paper](paper.md) says what we do where it is silent, [architecture](architecture.md) which function is which equation.
"""


def order(name: str) -> tuple[int, str]:
    """Scob first, the ceiling last."""
    return ({"scob": 0, "full": 2}.get(name, 1), name)


def with_signs(text: str) -> str:
    """Greek letters, powers, indices and products as signs; words in backticks stay as they are."""
    names = "|".join(SIGNS)
    spans = text.split("`")
    for index in range(0, len(spans), 2):  # those between backticks have odd numbers
        span = re.sub(rf"(?<![\w.])({names})(?=[\W\d_]|$)", lambda match: SIGNS[match.group(1)], spans[index])
        span = re.sub(r"(?<=[\w)])\^(\w+[+-]?)(?!\w)", r"<sup>\1</sup>", span)
        span = re.sub(r"(?<![^\W_])([^\W\d_])_(\w+)", r"\1<sub>\2</sub>", span)
        spans[index] = span.replace("*", "·")
    return "`".join(spans)


def rewrapped(text: str) -> str:
    """A paragraph in lines of this page's width; a word that a line ended within stays one word."""
    filled = textwrap.fill(re.sub(r"(?<=\w)-\n\s*", "-", text), 118, break_on_hyphens=False)
    return re.sub(r"(?m)^([-+]) ", r"\\\1 ", filled)  # a minus at the beginning of a line is not an item of a list


def described(method: type[Method]) -> str:
    """What the file of a method says about it."""
    if method.name == "scob":
        return SCOB.strip()
    text = inspect.cleandoc(sys.modules[method.__module__].__doc__ or "")
    first, _, rest = text.partition("\n\n")
    own = inspect.cleandoc(method.__doc__ or "")
    shared = sum(methods.find(name).__module__ == method.__module__ for name in methods.names()) > 1
    parts = [own if shared else first, *rest.split("\n\n")]
    return "\n\n".join(rewrapped(with_signs(part.strip())) for part in parts if part.strip())


def page() -> str:
    """The page as Markdown; only the methods of this package."""
    sections = []
    for name in sorted(methods.names(), key=order):
        method = methods.find(name)
        if method.__module__.startswith("scob."):
            file = method.__module__.replace(".", "/")
            sections.append(f"## {method.title} (`{name}`)\n\n{described(method)}\n\nSource: `src/{file}.py`\n")
    return INTRODUCTION + "\n" + "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
