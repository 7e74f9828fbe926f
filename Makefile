# Two commands do all set-up: `make demo` and `make test`. Each makes .venv, installs, runs.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test lint format bench bench-service clean

demo: $(VENV)/core.stamp
	$(BIN)/superarm demo

test: $(VENV)/test.stamp lint
	$(BIN)/python tools/install_parts.py
	$(BIN)/python -m pytest

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/test.stamp
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/run.py

bench-service: $(VENV)/test.stamp
	$(BIN)/python benchmarks/run.py service

clean:
	rm -rf $(VENV) superarm-demo

$(VENV)/python.stamp:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/python.stamp
	$(PIP) --editable .
	@touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/python.stamp
	$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/core.stamp

$(VENV)/bench.stamp: $(VENV)/test.stamp
	$(PIP) --editable ".[bench]"
	@touch $@
