# The commands of this project; `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# with uv: INSTALL='uv pip install --python $(BIN)/python' make setup
INSTALL ?= $(BIN)/python -m pip install --quiet --disable-pip-version-check

# a process more than there are cores: many tests wait for other processes
PARALLEL := -n $(shell expr $$(nproc) + 1) --maxprocesses 4 --dist loadfile
# tests that run tasks, which are forked from their own process: after the imports of all other
# tests it would have three times the memory, and each fork would take three times as long
FORKING := tests/cli tests/jobs tests/pipeline

.DEFAULT_GOAL := help

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# PYTHON=python3.12 VENV=.venv312 make test: the same with another interpreter
# with a new pip: that of Python 3.11 does not end choosing among so many packages
$(READY): setup.cfg pyproject.toml
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	$(INSTALL) -e '.[dev]'
	touch $@

setup: $(READY) ## make the virtual environment .venv with everything in it

demo: $(READY) ## generate data, find its near-duplicates, compare with what was planted
	@PATH="$(abspath $(BIN)):$$PATH" sh examples/find_near_duplicates.sh

test: $(VENV)/.spark-ready ## run all tests but those on Hadoop, of minutes on EMR, in a browser, and others of minutes
	$(BIN)/python -m pytest $(PARALLEL) $(FORKING)
	$(BIN)/python -m pytest $(PARALLEL) $(FORKING:%=--ignore=%)

thorough-test: ## the same with ten times as many random examples, other ones each time
	HYPOTHESIS_PROFILE=thorough $(MAKE) test

wheel: $(READY) ## build the wheel, with compiled kernels for all processors of this platform (a minute)
	@rm -rf build dist && mkdir dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist >dist/build.log 2>&1 || { cat dist/build.log; exit 1; }
	$(BIN)/python -m twine check --strict dist/*.whl
	@touch dist/.built

targets-test: $(READY) ## compare the kernels of all targets, of aarch64 under QEMU (Debian, as root)
	folder=$$(mktemp -d) && $(BIN)/python -m tests.kernels.all_targets $$folder/all && rm -r $$folder

# by the environment of development, whichever that of the smoke test is
dist/.built: setup.cfg setup.py pyproject.toml tools/manual_pages.py $(shell find mr_dedup data_gen -name '*.py')
	$(MAKE) wheel PYTHON=python3 VENV=.venv

$(VENV)/.smoke-ready: dist/.built
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) "$$(ls dist/*.whl)[urls,server]"
	touch $@

smoke-setup: $(VENV)/.smoke-ready

smoke: $(VENV)/.smoke-ready ## run every command of the wheel once (PYTHON=python3.13 VENV=.venv313 make smoke)
	$(BIN)/python tests/smoke.py

slow-test: $(READY) ## run the tests that take long: kills at random moments, a server under load, large inputs
	$(BIN)/python -m pytest -m slow -s

$(VENV)/.browser-ready: $(READY)
	$(INSTALL) -e '.[browser]'
	touch $@

browser-setup: $(VENV)/.browser-ready

browser-test: $(VENV)/.browser-ready ## look at the report and the server's page in Chromium (apt-get install chromium)
	$(BIN)/python -m pytest -m browser

hadoop-up: $(READY) ## start a Hadoop on this machine (Java 17; Maven at first)
	@$(BIN)/python tests/engines/hadoop/cluster.py up

hadoop-down: $(READY) ## end it, and remove all it left
	@$(BIN)/python tests/engines/hadoop/cluster.py down

hadoop-test: $(VENV)/.spark-ready ## run the tests on Hadoop, on the one that is up or on their own
	$(BIN)/python -m pytest -m hadoop

$(VENV)/.spark-ready: $(READY)
	$(INSTALL) -e '.[spark]'
	touch $@

spark-setup: $(VENV)/.spark-ready

spark-test: $(VENV)/.spark-ready ## run the tests on Spark (Java 17; minutes)
	$(BIN)/python -m pytest -m spark

same-results: $(VENV)/.spark-ready ## compare dedup by every method and engine, in many parts (an hour; FILES=…)
	$(BIN)/python -m tests.same_results $(if $(FILES),$(FILES),--all-divisions)

golden: $(VENV)/.spark-ready ## compare what every command writes on each local engine, and on Spark (minutes)
	$(BIN)/python -m tests.golden run $(VENV)/golden
	for engine in spilling inline local spark; do \
		$(BIN)/python -m tests.golden run $(VENV)/golden --engine $$engine && \
		$(BIN)/python -m tests.golden compare $(VENV)/golden/memory $(VENV)/golden/$$engine || exit 1; \
	done

spark-smoke: $(VENV)/.spark-ready ## run one command on Spark
	$(BIN)/python -m pytest -m "spark and smoke" --durations=3

emr-test: $(READY) ## run the tests on a simulated EMR that take long
	$(BIN)/python -m pytest -m emr $(PARALLEL)

hadoop-smoke: $(READY) ## run one job on Hadoop
	$(BIN)/python -m pytest -m "hadoop and smoke" --durations=3

lint: $(VENV)/.bench-ready ## check style and types: ruff, mypy strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

examples: $(READY) ## run every example
	@for example in examples/*.sh; do \
		echo "== $$example"; PATH="$(abspath $(BIN)):$$PATH" sh $$example || exit 1; \
	done
	@for example in examples/*.py; do \
		echo "== $$example"; PATH="$(abspath $(BIN)):$$PATH" python $$example || exit 1; \
	done

$(VENV)/.docs-ready: $(VENV)/.spark-ready $(VENV)/.browser-ready
	$(INSTALL) -e '.[docs]'
	touch $@

docs-setup: $(VENV)/.docs-ready

docs: $(VENV)/.docs-ready ## build the site, run its notebooks, look at it in Chromium (docs/_build/html)
	rm -rf docs/_build
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	$(BIN)/python -m pytest -m site

docs-quick: $(VENV)/.docs-ready ## build the site without running its notebooks, to see that nothing is missing
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -D nb_execution_mode=off docs docs/_build/quick

$(VENV)/.bench-ready: $(READY)
	$(INSTALL) -e '.[bench]'
	touch $@

bench-setup: $(VENV)/.bench-ready

bench: $(VENV)/.bench-ready ## measure: ratios against rivals, memory, growth with size; fills docs/performance/measured.md
	$(BIN)/python -m bench --out bench/results

bench-decontamination: $(VENV)/.bench-ready ## measure what decontaminate finds: FIXTURES=DIR, ITEMS=FILE, PAGES=N, DECON=PROGRAM
	$(BIN)/python -m bench.decontamination $(if $(FIXTURES),--fixtures $(FIXTURES)) $(if $(ITEMS),--items $(ITEMS)) $(if $(PAGES),--pages $(PAGES)) $(if $(DECON),--decon $(DECON))

bench-quick: $(VENV)/.bench-ready ## the same at sizes of a minute, to see that it runs
	$(BIN)/python -m bench --quick

bench-passages: $(VENV)/.bench-ready ## compare passages with those of a suffix array; measure: SIZES="0.1 1", DATATROVE=PYTHON, SUBSTRING=PROGRAM, LIMIT=SECONDS
	$(BIN)/python -m bench.passages --check 100 --sizes $(or $(SIZES),0.1 1) $(if $(DATATROVE),--datatrove $(DATATROVE)) $(if $(SUBSTRING),--substring $(SUBSTRING)) $(if $(LIMIT),--limit $(LIMIT)) $(if $(WORK),--work $(WORK))

field-corpus: $(VENV)/.bench-ready ## make a corpus of real text from packages, SIZE gigabytes in FIELD/SIZE (SIZE=0.2 FIELD=.field)
	$(BIN)/python -m bench.field.corpus $(or $(SIZE),0.2) $(or $(FIELD),.field)/$(or $(SIZE),0.2) --cache $(or $(FIELD),.field)/archives

field-tools: $(VENV)/.bench-ready dist/.built ## make the environments of the tools that are compared, in FIELD/tools (uv; cargo, Java 17)
	$(BIN)/python -m bench.field.environments $(or $(FIELD),.field)/tools $(TOOLS)

field: $(VENV)/.bench-ready dist/.built ## compare tools on a corpus of SIZE gigabytes (SIZE=0.2 ROUNDS=1 LIMIT=900 TOOLS="mr-dedup datatrove*" SMALLER=FILE OUT=FILE)
	$(BIN)/python -m bench.field.corpus $(or $(SIZE),0.2) $(or $(FIELD),.field)/$(or $(SIZE),0.2) --cache $(or $(FIELD),.field)/archives
	test -d $(or $(FIELD),.field)/truth/$(or $(SIZE),0.2) || $(BIN)/python -m bench.field.truth $(or $(FIELD),.field)/$(or $(SIZE),0.2) $(or $(FIELD),.field)/truth/$(or $(SIZE),0.2) $(if $(filter-out 0.%,$(or $(SIZE),0.2))$(SAMPLE),--sample $(or $(SAMPLE),2000))
	$(BIN)/python -m bench.field $(or $(FIELD),.field)/$(or $(SIZE),0.2) --truth $(or $(FIELD),.field)/truth/$(or $(SIZE),0.2) --environments $(or $(FIELD),.field)/tools --install --work $(or $(FIELD),.field) --out $(or $(OUT),$(or $(FIELD),.field)/field-$(or $(SIZE),0.2).json) $(if $(SMALLER),--smaller $(SMALLER)) --rounds $(or $(ROUNDS),1) --limit $(or $(LIMIT),900) $(if $(TOOLS),--tools $(TOOLS))

field-quick: $(VENV)/.bench-ready ## see that quality on 20 MB of the same text is not below its floors (a minute, and half of one to fetch it)
	$(BIN)/python -m bench.field.quick $(or $(FIELD),.field)

bench-counts: $(VENV)/.bench-ready ## compare counts of duplicates over five weekly crawls with planted ones (PAGES=200000 a week)
	$(BIN)/python -m bench.counts $(if $(PAGES),--pages $(PAGES)) $(if $(WORK),--work $(WORK))

bench-skew: $(VENV)/.spark-ready ## print the longest task on Spark of documents that share keys (Java 17; DOCUMENTS=100000)
	$(BIN)/python -m bench.skew $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(WORK),--work $(WORK))

clean: ## remove what these commands made
	rm -rf $(VENV) .uv build dist docs/_build docs/reference/commands/*-*.md *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup demo test golden same-results thorough-test wheel targets-test smoke-setup smoke slow-test browser-setup browser-test hadoop-up hadoop-down hadoop-test emr-test hadoop-smoke spark-setup spark-test spark-smoke lint examples docs-setup docs docs-quick bench-setup bench bench-decontamination bench-quick bench-passages bench-counts bench-skew field-corpus field-tools field field-quick clean
