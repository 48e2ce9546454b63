# Everything a contributor runs. Needs make, sh and Python 3.11 or newer with venv; the rest goes into .venv.

.DEFAULT_GOAL := help
.PHONY: help setup check test test-all demo bench lock clean

# The first one on PATH starts scripts/setup.py, which then chooses a Python that is new enough.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do command -v $$p && break; done)
PYTEST_ARGS ?=
# One process of tests more than there are cores: many tests wait. WORKERS=0 runs them in one, in their order.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile
ONLY ?=

help: ## Show this list (the default)
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: ## Make .venv ready: the locked packages and cloister itself, editable
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then echo "setup: no python3 on PATH. Install Python 3.11 or newer, or run: make setup PYTHON=/path/to/python" >&2; exit 1; fi; \
	"$$python" scripts/setup.py

check: setup ## Style, types and room borders: ruff, pyright, import-linter
	@failed=""; \
	run() { name="$$1"; shift; printf '\n== %s\n' "$$name"; "$$@" || failed="$$failed [$$name]"; }; \
	run "ruff check: rules" .venv/bin/python -m ruff check .; \
	run "ruff format: layout" .venv/bin/python -m ruff format --check .; \
	run "pyright: types, strict" .venv/bin/python -m pyright; \
	run "import-linter: rooms and fences" .venv/bin/lint-imports --no-logo --no-cache; \
	if [ -n "$$failed" ]; then printf '\ncheck failed:%s\n' "$$failed"; exit 1; fi; \
	printf '\ncheck passed\n'

test: setup ## The tests, without the slow ones (PYTEST_ARGS="-k gate -x" is passed on)
	@$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: setup ## All tests, the slow ones too
	@$(PYTEST) $(PYTEST_ARGS)

demo: setup ## A short tour in the terminal
	@.venv/bin/cloister demo

bench: setup ## Measure (ONLY=name for one of them)
	@.venv/bin/python -m bench $(if $(ONLY),--only "$(ONLY)")

lock: ## Resolve the dependencies anew and write requirements.lock (needs Python 3.11)
	@python3.11 scripts/lock.py

clean: ## Remove .venv, caches and build output
	@rm -rf .venv build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests bench examples scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
