# make demo   set everything up in .venv, then show the method working on drawn scenes
# make test   set up, then ruff, mypy --strict, the import contract and the quick tests
# make compat new environments: light, lowest and newest versions, each Python that is here; minutes, hundreds of MB
# make docs   the documentation as a site, in .site/; its search needs a server: python -m http.server -d .site
# make slow   the minutes-long tests: kills, reproductions, comparisons
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test slow durability compat docs workflow format bench chromium clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/scob demo

test: $(READY) chromium
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

slow: $(READY) chromium
	$(BIN)/python -m pytest -q -m slow

durability: $(READY)
	$(BIN)/python scripts/durability.py

compat: $(READY) docs workflow
	$(BIN)/python scripts/compat.py

# GitHub's own schemas. actionlint knows more about workflows, but its package downloads a program.
workflow: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt check-jsonschema
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

# Not --quiet: it hides the warnings from --strict as well.
docs: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,docs]'
	$(BIN)/mkdocs build --strict

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks scripts
	$(BIN)/ruff format src tests benchmarks scripts

bench: $(READY)
	$(BIN)/scob bench ipt
	$(BIN)/scob bench step
	$(BIN)/scob bench train --size 224 --batch 8
	$(BIN)/scob bench predict --size 224

# The review page is tested in a real browser. Where none can be had the tests skip, saying so.
chromium:
	@command -v chromium >/dev/null 2>&1 || test "$$(id -u)" != 0 || { \
	  (apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }) >/dev/null 2>&1; } \
	  || echo "no Chromium: the browser tests will skip"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
