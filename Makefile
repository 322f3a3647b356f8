.PHONY: demo test fuzz soak pages docs dist lowest lock clean
.DEFAULT_GOAL := demo

# Modules are compiled once and not by every process: the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
STAMP := $(VENV)/.installed
UV := $(shell command -v uv 2>/dev/null || echo python3 -m uv)

demo: $(STAMP)
	$(VENV)/bin/thresher demo

test: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pytest --numprocesses auto --maxprocesses 8 --dist loadfile

# Damaged files for every reader, for minutes; the counts are appended to results/reliability.jsonl.
fuzz: $(STAMP)
	$(VENV)/bin/python tests/fuzz.py --rounds 40

# Half an hour of commands killed, stopped and starved, compared with an undisturbed twin; stored in the same file.
soak: $(STAMP)
	$(VENV)/bin/python tests/soak.py --seconds 1800

# docs/results from results/: `thresher bench show` for every stored file of a suite, and the pages of benchmarks/.
pages: $(STAMP)
	for file in results/*-small.jsonl results/*-paper.jsonl; do name=$$(basename $$file .jsonl); \
		$(VENV)/bin/thresher bench show $${name%-*} --scale $${name##*-} >/dev/null || exit 1; done
	$(VENV)/bin/python benchmarks/pages.py

# The site, into build/site: the code of its pages runs, and nothing is fetched.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

# sdist and wheel, their metadata, and the wheel in clean environments: without and with extras, on every Python that is there.
dist: $(STAMP)
	rm -rf dist
	$(UV) build --quiet --no-build-isolation --python $(VENV)/bin/python
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/python release/check.py dist/*.whl --uv "$(UV)" --mypy $(VENV)/bin/mypy --out results/install.jsonl

# The same with the lowest versions of what pyproject.toml names.
lowest: $(STAMP)
	rm -rf dist
	$(UV) build --quiet --no-build-isolation --python $(VENV)/bin/python
	$(VENV)/bin/python release/check.py dist/*.whl --uv "$(UV)" --resolution lowest-direct --pythons 3.11 \
		--out results/install.jsonl

# The stamp is newer than both files when nothing has to be installed.
$(STAMP): requirements.lock pyproject.toml
	@command -v uv >/dev/null 2>&1 || python3 -m uv --version >/dev/null 2>&1 || python3 -m pip install --quiet uv \
		|| python3 -m pip install --quiet --break-system-packages uv
	test -x $(VENV)/bin/python || $(UV) venv --quiet --python python3 $(VENV)
	$(UV) pip install --quiet --python $(VENV)/bin/python --require-hashes -r requirements.lock
	$(UV) pip install --quiet --python $(VENV)/bin/python --no-deps --no-build-isolation -e .
	touch $@

# The same torch on every machine, so that figures can be compared.
lock: requirements.constraints
	$(UV) pip compile pyproject.toml --all-extras --universal --generate-hashes --no-emit-index-url --no-header \
		--python-version 3.11 --constraints $< --output-file requirements.lock

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
