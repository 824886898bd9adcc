# Two commands matter: `make demo` and `make test`. The rest is for people who change the code.
#
#   make demo DEMO_FLAGS="--seeds 6"    any flag of `selfpretrain compare`
#   make demo INSTALLER=uv              install with uv instead of pip
#   make demo TORCH_INDEX=              take PyTorch from the default index, whatever the machine
#   make test TEST_FLAGS="-k mixers"    any flag of pytest
#   make test-machines LANES="avx2"     some lanes of `python tools/machines.py --list`, or --full

VENV ?= .venv
RUNS ?= runs
INSTALLER ?= pip
DEMO_FLAGS ?=
TEST_FLAGS ?=
LANES ?=
WORKERS ?= auto

# Without an NVIDIA driver, gigabytes of CUDA libraries would be downloaded for nothing: the CPU index of
# PyTorch then stands beside the default one, and its version wins. Own indexes are left as they are.
ifeq ($(shell uname -s),Linux)
ifeq ($(shell command -v nvidia-smi)$(wildcard /proc/driver/nvidia/version),)
ifeq ($(PIP_FIND_LINKS)$(PIP_INDEX_URL)$(PIP_EXTRA_INDEX_URL),)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
endif
endif
endif
EXTRA_INDEX = $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

# Installed without bytecode, which is quicker; each module is compiled when it is first used, and must be kept.
unexport PYTHONDONTWRITEBYTECODE

BIN = $(VENV)/bin
SPACE := $() $()
ONE_THREAD = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE

ifeq ($(INSTALLER),uv)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
INSTALL = uv pip install --python $(BIN)/python --index-strategy unsafe-best-match $(EXTRA_INDEX) -c constraints.txt
MAKE_VENV = uv venv --quiet --allow-existing --python '>=3.11' $(VENV)
else
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --no-compile $(EXTRA_INDEX) -c constraints.txt
MAKE_VENV = $(find_python) && "$$python" -m venv $(VENV)
endif

define find_python
for name in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	if $$name -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then python=$$name; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "No Python >= 3.11 with venv was found." >&2; \
	echo "Install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)," >&2; \
	echo "or name it: make demo PYTHON=/path/to/python3, or let uv bring one: make demo INSTALLER=uv" >&2; \
	exit 1; \
fi
endef

.PHONY: demo test torture test-machines check lint types contracts dead-code docs env clean help
.DEFAULT_GOAL := help

demo: $(VENV)/.installed  ## compare self-pretraining with training from scratch; ends with a table and a report
	$(BIN)/selfpretrain compare --arms matched,spt --runs $(RUNS) $(DEMO_FLAGS)

test: $(VENV)/.test  ## run the tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TEST_FLAGS)

GUARANTEES = $(shell grep -oE "test_[a-z0-9_]+" docs/guarantees.md | sort -u)

torture: $(VENV)/.test  ## try what docs/guarantees.md promises at full counts, for up to half an hour; ends with a table
	$(ONE_THREAD) SELFPRETRAIN_TORTURE=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -k "$(subst $(SPACE), or ,$(GUARANTEES))"

fake-gpu: $(VENV)/.test  ## run networks, commands and ranks on an emulated GPU; needs g++ and a CPU build of PyTorch
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal tests/fake_gpu

test-machines: $(VENV)/.test  ## run the numeric tests and a smoke demo as other machines would; ends with a table
	$(if $(TORCH_INDEX),PIP_EXTRA_INDEX_URL=$(TORCH_INDEX)) $(BIN)/python tools/machines.py --workers $(WORKERS) $(LANES)

check: lint types contracts dead-code  ## lint, formatting, types, import contracts; dead code as advice

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests tools benchmarks experiments docs README.md CONTRIBUTING.md CHANGELOG.md
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; else echo "hadolint is not here: Dockerfile unchecked"; fi

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

dead-code: $(VENV)/.dev
	-$(BIN)/vulture

docs: $(VENV)/.dev  ## build the documentation into build/docs
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q -E -b html -d build/doctrees docs build/docs
	@echo "documentation: build/docs/index.html"

env: $(VENV)/.dev  ## install everything that the other targets need

clean:  ## delete the environment and what was built; results in runs/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@grep -E '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/:.*  ## /\t/' | expand -t 10

$(BIN)/python:
	@$(MAKE_VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[dev]"
	@touch $(VENV)/.installed $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e ".[dev,docs]"
	@touch $(VENV)/.installed $(VENV)/.test $@
