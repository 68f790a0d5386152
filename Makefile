# Every target works without make too: see "Two commands" in README.md.
PYTHON ?= python3
PY := .venv/bin/python
INSTALLED := .venv/.installed
SMOLLM2 := data/models/SmolLM2-135M-Instruct/model.safetensors
SOURCES := lib audit course tests notebooks benchmarks
# Two files of tests at a time, each on one thread, in the order that tests/conftest.py gives them.
TESTS := OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# As lib/threads.py does for commands and notebooks, here for tests, and for the processes that all of these start.
# Threads that wait for each other give way to other work; otherwise a busy machine is many times slower.
export OMP_WAIT_POLICY ?= PASSIVE
# Memory that is freed stays with its process (glibc): else each large tensor costs new pages, a fifth of some trainings.
export MALLOC_MMAP_THRESHOLD_ ?= 134217728
export MALLOC_TRIM_THRESHOLD_ ?= 536870912

# What Python compiles is kept, whatever the shell says: each notebook and each test process would compile it again. The
# installation compiles nothing: most files in .venv are never read.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help install reproduce published score check why card compare lab quick quick_tests test lint same times nightly unchanged gate
.DELETE_ON_ERROR:

help: ## show this list
	@echo "See what reward models value. Targets:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Every target installs what it needs into .venv first. Another Python: make PYTHON=python3.12 install"
	@echo "Other commands: $(PY) -m lib.run --help; for owners and teachers: the same of audit and course"

install: $(INSTALLED) $(SMOLLM2) ## make .venv with the pinned versions (about 2 minutes, 2 GB)

reproduce: install ## score and analyse: make reproduce [MODELS="R-Gem-2B R-Lla-3B" | MODELS=paper] [COLLECTION=mine] [ON=auto]
	@$(PY) -m $(if $(ON),audit,lib.run) reproduce $(if $(MODELS),--models $(MODELS)) \
		$(if $(COLLECTION),--collection $(COLLECTION)) $(if $(ON),--on "$(ON)")

published: $(INSTALLED) ## the notebooks on the scores that the authors published: make published [DATA_MIRROR=folder]
	@$(if $(DATA_MIRROR),DATA_MIRROR="$(DATA_MIRROR)") $(PY) -m lib.run published
	@$(PY) -m course explore

quick: $(INSTALLED) ## check style and types, and run the tests that load no notebook and train nothing (about a minute)
	@$(MAKE) --no-print-directory -j 2 lint quick_tests

quick_tests: install
	@$(TESTS) -m "not slow and not nightly"

test: install ## run all tests but those of make nightly
	@$(TESTS) -m "not nightly"

nightly: install ## simulations of coverage, drills (kills, full disks, changed files), and every planted fault
	@$(subst --no-loadscope-reorder,,$(TESTS)) -m "nightly or drill" -o python_files='test_*.py drill_*.py'
	@$(PY) tests/faults.py
	@$(PY) tests/oldest.py

# How score, check, card and compare read and run a model: DTYPE=bfloat16 DEVICE=cpu BOS=double READ_AT=last
# TEMPLATE=file.jinja REVISION=commit LABEL=1 HEAD=yes,no; of a served model TOKENIZER=folder, of an adapter BASE=model; for implicit rewards REFERENCE=language model BETA=1
LOADING = $(if $(DTYPE),--dtype $(DTYPE)) $(if $(DEVICE),--device $(DEVICE)) $(if $(BOS),--bos $(BOS)) \
	$(if $(READ_AT),--read-at $(READ_AT)) $(if $(LABEL),--label $(LABEL)) \
	$(if $(HEAD),--head="$(HEAD)") \
	$(if $(TEMPLATE),--template "$(TEMPLATE)") $(if $(REVISION),--revision "$(REVISION)") \
	$(if $(TOKENIZER),--tokenizer "$(TOKENIZER)") $(if $(BASE),--base "$(BASE)") \
	$(if $(REFERENCE),--reference "$(REFERENCE)") $(if $(BETA),--beta $(BETA))

score: $(INSTALLED) ## score one model: make score MODEL=R-Gem-2B [PROMPTS=greatest,best | file.csv] [REPLIES=file.jsonl OUT=file.csv] [REPLY=text|ids] [TOKENS=500] [STREAM=1] [REFERENCE=language model] [BETA=1] [COLLECTION=mine] [DTYPE=bfloat16 DEVICE= BOS= READ_AT= TEMPLATE=file REVISION= LABEL= HEAD=]
	@test -n "$(MODEL)" || { echo "error: which model? Say: make score MODEL=<nickname, hub id or folder>" >&2; exit 2; }
	@$(PY) -m audit score "$(MODEL)" $(if $(PROMPTS),--prompts "$(PROMPTS)") $(if $(REPLY),--reply-mode $(REPLY)) \
		$(if $(TOKENS),--tokens $(TOKENS)) $(if $(STREAM),--stream $(STREAM)) \
		$(if $(COLLECTION),--collection $(COLLECTION)) \
		$(if $(REPLIES),--replies "$(REPLIES)") $(if $(OUT),--out "$(OUT)") $(LOADING)

check: $(INSTALLED) ## is a model scored as its makers meant: make check MODEL=path/to/model [options as for score]
	@test -n "$(MODEL)" || { echo "error: which model? Say: make check MODEL=<nickname, hub id or folder>" >&2; exit 2; }
	@$(PY) -m audit check "$(MODEL)" $(LOADING)

why: $(INSTALLED) ## why do another program's rewards differ: make why MODEL=path/to/model REWARDS=file.csv [options as for score]
	@test -n "$(MODEL)" -a -n "$(REWARDS)" || { echo "error: say: make why MODEL=<nickname, hub id or folder> REWARDS=<csv or jsonl>" >&2; exit 2; }
	@$(PY) -m audit why "$(MODEL)" "$(REWARDS)" $(LOADING)

card: $(INSTALLED) ## one page on what a model values, beside ten published ones: make card MODEL=path/to/model [SPAM=1] [COLLECTION=mine]
	@test -n "$(MODEL)" || { echo "error: which model? Say: make card MODEL=<nickname, hub id or folder>" >&2; exit 2; }
	@$(if $(DATA_MIRROR),DATA_MIRROR="$(DATA_MIRROR)") $(PY) -m audit card "$(MODEL)" $(LOADING) \
		$(if $(SPAM),--spam) $(if $(COLLECTION),--collection $(COLLECTION))

compare: $(INSTALLED) ## what changed between two checkpoints: make compare MODELS="a b" (with seeds: "a1,a2 b1,b2") [COLLECTION=mine] [options as for score]
	@test -n "$(MODELS)" || { echo "error: which models? Say: make compare MODELS=\"a b\"" >&2; exit 2; }
	@$(if $(DATA_MIRROR),DATA_MIRROR="$(DATA_MIRROR)") $(PY) -m audit compare $(MODELS) $(LOADING) \
		$(if $(COLLECTION),--collection $(COLLECTION))

bestofn: $(INSTALLED) ## what is the best of n replies like: make bestofn MODEL=path/to/model REPLIES=file [AGAINST=model] [OUT=file.csv] [options as for score]
	@test -n "$(MODEL)" -a -n "$(REPLIES)" || { echo "error: say: make bestofn MODEL=<nickname, hub id or folder> REPLIES=<csv or jsonl>" >&2; exit 2; }
	@$(PY) -m audit bestofn "$(MODEL)" "$(REPLIES)" $(LOADING) $(if $(AGAINST),--against "$(AGAINST)") \
		$(if $(OUT),--out "$(OUT)")

lab: install ## open the notebooks in JupyterLab
	@$(PY) -m jupyter lab notebooks

lint: $(INSTALLED) ## check style (ruff), imports (import-linter) and types (mypy)
	@$(PY) -m ruff check $(SOURCES)
	@.venv/bin/lint-imports --no-cache --no-logo
	@$(PY) -m ruff format --check $(SOURCES)
	@$(PY) -m mypy

same: $(INSTALLED) ## do the notebooks still compute the same numbers: make same [N="03 05"]
	@$(PY) tests/same.py $(N)

times: $(INSTALLED) ## measure the tests, and write the list of the slow ones that make quick leaves out
	@$(PY) tests/times.py

unchanged: ## does make published write the committed tables and figures again, byte for byte
	@git diff --exit-code --stat figures/published || \
		{ echo "error: make published changes the files above; look at the changes, and commit them" >&2; exit 1; }

# Style is checked while SmolLM2 is unpacked. Lint and tests come once: make test includes what make quick runs. The tests
# come last: they read what these runs executed, execute only what these did not, and build the site; published comes
# first, as it renews tables that the notebooks read.
# DATA_MIRROR names a folder with the published files, where there is one.
gate: $(INSTALLED) ## all that has to pass before a change is kept: .ci/run
	@$(MAKE) --no-print-directory -j 2 lint install
	@$(if $(wildcard $(DATA_MIRROR)),$(MAKE) --no-print-directory published)
	@$(if $(wildcard $(DATA_MIRROR)),$(MAKE) --no-print-directory unchanged)
	@$(MAKE) --no-print-directory reproduce
	@$(MAKE) --no-print-directory test

# The stamp is newer than both lists of versions, or the environment is brought up to date.
$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "error: this needs Python 3.11, 3.12 or 3.13; name one: make PYTHON=python3.12 install" >&2; exit 2; }
	@echo "Installing pinned versions into .venv (about 2 minutes, 2 GB) ..."
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check pip==26.3  # finds versions three times as fast as Python 3.11's own
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -c requirements.lock -e '.[dev]'
	@touch $@
	@echo "Installed: $$($(PY) --version), $$($(PY) -m pip freeze --exclude-editable | wc -l | tr -d ' ') packages."

# What cannot be fetched is told, and everything else works without it.
$(SMOLLM2): | $(INSTALLED)
	@$(PY) -m lib.trained.smollm2
