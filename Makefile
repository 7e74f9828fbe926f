# Two commands do all set-up: `make demo` and `make test`. Each makes .venv, installs, runs.

PYTHON ?= python3
VENV := .venv
LOWEST := .venv-lowest
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
else
SCRIPTS := bin
endif
BIN := $(VENV)/$(SCRIPTS)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
LAWS := tests/beliefs tests/kernels tests/oracles tests/policies tests/theory tests/rivals tests/fitting \
	tests/adapting tests/test_gaussian.py tests/test_agent_and_loop.py
# one BLAS thread per worker: two workers with two threads each wait for each other
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

.PHONY: demo test test-slow test-kernel test-lowest review test-faults lint format bench bench-service soak \
	docs docs-full package sbom clean

demo: $(VENV)/core.stamp
	$(BIN)/superarm demo

test: $(VENV)/test.stamp lint
	$(BIN)/python tools/install_parts.py
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/test.stamp
	$(PYTEST) -m slow

# attacks and kills, at length; a short part of them is in `make test`
test-faults: $(VENV)/test.stamp
	SUPERARM_FAULTS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/service/test_faults.py \
		tests/service/attacks

test-kernel: $(VENV)/test.stamp
	OPENBLAS_CORETYPE=$$($(BIN)/python tools/other_kernel.py) $(PYTEST) -m "not slow" $(LAWS)

test-lowest: $(LOWEST)/test.stamp
	SUPERARM_STRICT=0 OPENBLAS_NUM_THREADS=1 $(LOWEST)/$(SCRIPTS)/python -m pytest --numprocesses auto \
		-m "not slow" -W default $(LAWS) tests/problems tests/saving
	$(LOWEST)/$(SCRIPTS)/superarm demo navigation --rounds 5 --repeats 2 --edges 600 \
		--output $(LOWEST)/demo
	test -f $(LOWEST)/demo/navigation.html

review: $(VENV)/test.stamp
	$(BIN)/repo-review . --format rich

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

bench-service: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/run.py service hierarchies

soak: $(VENV)/test.stamp
	$(BIN)/python benchmarks/run.py service:soak

# the site, in site/index.html; its tutorials are run, warnings are errors
docs: $(VENV)/docs.stamp
	rm -rf site docs/tutorials docs/gallery
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs site
	$(BIN)/python tools/check_site.py site

docs-full: export SUPERARM_FULL = 1
docs-full: docs

# what a release uploads, and whether it can be installed and used
package: $(VENV)/package.stamp
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tools/try_package.py dist

# what is inside: this package and all that it needs, as CycloneDX
sbom: $(VENV)/package.stamp
	rm -rf $(VENV)-inside
	$(PYTHON) -m venv $(VENV)-inside
	$(VENV)-inside/$(SCRIPTS)/python -m pip --disable-pip-version-check install --quiet .
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file sbom.json \
		$(VENV)-inside/$(SCRIPTS)/python
	$(BIN)/python tools/name_sbom.py sbom.json
	rm -rf $(VENV)-inside

clean:
	rm -rf $(VENV) $(VENV)-inside $(LOWEST) superarm-demo site dist sbom.json
	rm -rf docs/tutorials docs/gallery docs/measured docs/changelog.md docs/contributing.md docs/security.md \
		docs/conduct.md docs/reference/commands.md docs/reference/http.md docs/reference/measured.md

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

$(VENV)/docs.stamp: $(VENV)/test.stamp
	$(PIP) --editable ".[docs]"
	@touch $@

$(VENV)/package.stamp: $(VENV)/test.stamp
	$(PIP) --editable ".[release]"
	@touch $@

# the lowest versions have wheels for the lowest Python only
$(LOWEST)/test.stamp: pyproject.toml tools/lowest_versions.py
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/$(SCRIPTS)/python tools/lowest_versions.py > $(LOWEST)/lowest.txt
	$(LOWEST)/$(SCRIPTS)/python -m pip --disable-pip-version-check install --quiet \
		--constraint $(LOWEST)/lowest.txt --editable . pytest pytest-xdist hypothesis mpmath
	@touch $@
