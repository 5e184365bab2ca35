# Two commands do everything on a fresh machine with Python 3.11+: `make demo` and `make test`. `make docs` and `make wheel` build the rest.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready
# Test files run side by side, one process per core.
WORKERS ?= auto

.PHONY: demo test lint docs wheel bench setup clean

demo: $(READY)
	$(RUN)/residual-audio demo --out runs/demo

test: $(READY)
	$(RUN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

lint: $(READY)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

# The pages of docs/ as a site in build/site; a broken link or an unknown name is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=true $(RUN)/mkdocs build --strict --site-dir build/site

# The wheel, installed without extras into an environment of its own, where the demo has to run.
wheel: $(READY)
	rm -rf build/lib build/clean dist
	$(RUN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(RUN)/python -m venv build/clean
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	build/clean/bin/python scripts/check_wheel.py dist/*.whl
	rm -rf build/clean

bench: $(READY)
	for name in recording export end_to_end memory long_recording dimension ablation training small_model attention folding direct equaliser serve_load scaling; do echo "== $$name"; $(RUN)/python benchmarks/$$name.py || exit 1; done

setup: $(READY)

# The environment is rebuilt when what it is made from changes; otherwise this costs nothing.
# pip, not uv: the pinned torch may come from a local file that only pip is set up to find.
# Everything but torch is verified by its hash; torch's builds for CPU and CUDA bear one version and differ, so it comes with its version alone.
$(READY): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try make PYTHON=python3.11 …")'
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(RUN)/python -m pip install --quiet --constraint constraints.txt torch
	$(RUN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .ruff_cache .mypy_cache
