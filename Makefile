# `make run` and `make test` set up whatever they need; `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first interpreter that really is a Python 3.10: a pyenv shim named
# python3.10 exists even where it refuses to run.
find_python = for python in "$$PYTHON" python3.10 "$$HOME"/.pyenv/versions/3.10.*/bin/python3.10 \
    /usr/local/bin/python3.10 /opt/*/bin/python3.10 \
    "$$(uv python find 3.10 2>/dev/null)" "$$HOME"/.local/share/uv/python/cpython-3.10*/bin/python3.10 python3; do \
    [ -n "$$python" ] && "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 10))' \
      >/dev/null 2>&1 && { echo "$$python"; break; }; done

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## make the environment from requirements.lock

$(READY): requirements.lock setup.py
	@python="$$($(find_python))"; \
	if [ -z "$$python" ]; then \
	  echo "taskmix needs Python 3.10 (TFX has no newer wheels for Debian 12), and none was found."; \
	  echo "Get it with one of"; \
	  echo "    uv python install 3.10        (https://docs.astral.sh/uv)"; \
	  echo "    pyenv install 3.10            (https://github.com/pyenv/pyenv)"; \
	  echo "    conda create -n py310 python=3.10"; \
	  echo "or name one: make PYTHON=/path/to/python3.10 run"; \
	  exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$python"; \
	"$$python" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet -r requirements.lock
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: run
run: $(READY) ## photos to a pushed model, on the embedded photos
	@$(BIN)/taskmix run --config demo

.PHONY: test
test: $(READY) ## the test suite, some 20 minutes on two cores; see test-engines
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not engines" $(ARGS)

.PHONY: test-engines
test-engines: $(READY) ## the tests with engines: job servers, Prism, Flink, a rehearsed Kubeflow pipeline, the tutorials
	@$(BIN)/python -m pytest -m engines -rs $(ARGS)

.PHONY: test-fast
test-fast: $(READY) ## the tests that run no pipeline
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not pipeline and not engines" $(ARGS)

.PHONY: lint
lint: $(READY) ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright --warnings

.PHONY: docs
docs: $(READY) ## the documentation as a site, in build/site; a broken link fails
	@$(BIN)/python docs/build_pages.py build
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f build/mkdocs.yml
	@echo "wrote build/site/index.html"

.PHONY: format
format: $(READY) ## rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: lock
lock: $(READY) ## choose the versions in requirements.lock anew
	@$(BIN)/uv pip compile --quiet --upgrade setup.py --extra dev --extra docs -o requirements.lock \
	  --no-emit-index-url --no-emit-find-links
	@for gpu in "" gpu; do $(BIN)/uv pip compile --quiet setup.py $${gpu:+--extra $$gpu} \
	  -o kubeflow/requirements$${gpu:+-$$gpu}.lock -c requirements.lock --no-annotate \
	  --no-emit-index-url --no-emit-find-links; done

.PHONY: schemas
schemas: $(READY) ## write schemas/ anew from the nets, for review
	@$(BIN)/taskmix schema --write

.PHONY: bench-convert
bench-convert: $(READY) ## photos/s of the conversion [DATA=... SCALE=full]
	@$(BIN)/python -m benchmarks.convert $(if $(DATA),--data $(DATA))

.PHONY: bench-mine
bench-mine: $(READY) ## photos/s of the search for hard examples [DATA=...]
	@$(BIN)/python -m benchmarks.mine $(if $(DATA),--data $(DATA))

.PHONY: bench-input
bench-input: $(READY) ## examples/s of the input engines
	@$(BIN)/python -m benchmarks.input

.PHONY: bench-train
bench-train: $(READY) ## steps/s of training against a constant batch
	@$(BIN)/python -m benchmarks.train

.PHONY: bench-detect
bench-detect: $(READY) ## photos/s of the detector, against mtcnn and facenet-pytorch
	@$(BIN)/python -m benchmarks.detect

.PHONY: bench-python
bench-python: $(READY) ## samples/s of a Python function in parallel
	@$(BIN)/python -m benchmarks.python_map

.PHONY: clean
clean: ## remove the environment and every run
	rm -rf $(VENV) runs build dist *.egg-info
