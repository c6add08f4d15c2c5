# Turns variables into the arguments of the programs in lra/; the first time, any target makes .venv.
SHELL := bash
# ARGS reaches the program as the shell's quoting says, with no expansion of {a,b} or [1,2] on the way.
.SHELLFLAGS := -f +B -c
.DEFAULT_GOAL := help

## a variant's name, a class (my_package.my_module.MyMixer), a comma list, or all
VARIANT ?=
## a comma list of listops, text, retrieval, image, pathfinder; default: those that PRESET has sizes for
TASK ?= $(subst $(space),$(comma),$(tasks))
## the size of the work: mini, lra, paper
PRESET ?= mini
## a comma list of seeds; sweep takes 0,1,2 unless you say so
SEEDS ?= 0
## where runs are started: local, slurm, ray
LAUNCHER ?= local
## folder for score and speed files; default: results/runs
RESULTS ?=
## folder with raw data, only read; default: each task's own source
DATA_DIR ?=
## further Hydra overrides (data, bench, sweep, check, plan, gallery, plot) or pytest options (test), quoted as for the shell
ARGS ?=
## what .venv is made for: auto, cpu, cuda, tpu; auto asks .venv, then the device files
ACCELERATOR ?= auto
## a comma list of slurm, ray, data: optional packages to add to .venv
EXTRAS ?=
## the Python to make .venv with (one that is there keeps its own); default: the newest of 3.11 to 3.13 that is found
PYTHON ?=

# Variables go to programs as arguments, never behind their back through the environment.
variables := VARIANT TASK PRESET SEEDS LAUNCHER RESULTS DATA_DIR ARGS ACCELERATOR EXTRAS PYTHON
unexport $(variables) PYTHONHOME PYTHONSAFEPATH
unknown := $(filter-out $(variables),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
$(if $(strip $(unknown)),$(error unknown variable $(strip $(unknown)); allowed: $(variables)))

comma := ,
space := $() $()
# those that every preset in PRESET has sizes for
tasks = $(strip $(foreach task,listops text retrieval image pathfinder,$(if $(sizes_lacking),,$(task))))
sizes_lacking = $(strip $(foreach preset,$(subst $(comma), ,$(PRESET)),$(if $(wildcard configs/sizes/$(preset)/$(task).yaml),,no)))
python := .venv/bin/python
quote = '$(subst ','\'',$(1))'
# $(call overrides,key=VARIABLE ...): 'key=value' for each variable that has a value
overrides = $(foreach pair,$(1),$(call override,$(firstword $(subst =, ,$(pair))),$($(lastword $(subst =, ,$(pair))))))
override = $(if $(2),$(call quote,$(1)=$(2)))
# plot and status show all there is, data prepares all that the full-size tasks need, unless the user names something
named_variant = $(filter-out all,$(VARIANT))
named_task = $(if $(filter file,$(origin TASK)),,$(TASK))
named_seeds = $(if $(filter file,$(origin SEEDS)),,$(SEEDS))
named_preset = $(if $(filter file,$(origin PRESET)),,$(PRESET))

.PHONY: help setup lock data bench sweep status profile check plan gallery plot lecture test test-full test-slurm soak lint clean .venv .variant

help: ## print this text
	@echo 'make TARGET [VARIABLE=value ...], for example: make bench VARIANT=bigbird'
	@awk -F ':.*## ' 'BEGIN { print "\nTargets" } /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@awk 'BEGIN { print "\nVariables" } /^## / { text = substr($$0, 4) } \
	  /^[A-Z_]+ \?=/ { printf "  %-12s %s%s\n", $$1, text, ($$3 ~ /^[^$$]/ ? "; default: " $$3 : "") }' Makefile

setup: .venv ## make .venv from requirements/ (the other targets do it too, the first time)

lock: ## resolve requirements/ anew from pyproject.toml (needs uv)
	@scripts/lock.sh

data: .venv ## find the data of TASK (ARGS=download=true: fetch what is missing), check and encode it
	$(python) -m lra.data $(call overrides,task=named_task preset=named_preset data_dir=DATA_DIR) $(value ARGS)

bench: .venv .variant ## train, test, time and measure VARIANT
	$(python) -m lra.bench $(call overrides,model=VARIANT task=TASK preset=PRESET seed=SEEDS launcher=LAUNCHER results=RESULTS data_dir=DATA_DIR) $(value ARGS)

sweep: .venv ## bench every variant with three seeds (or VARIANT, SEEDS), here or on a cluster; goes on where it was
	$(python) -m lra.sweep $(call overrides,model=VARIANT task=TASK preset=PRESET seed=named_seeds launcher=LAUNCHER results=RESULTS data_dir=DATA_DIR) $(value ARGS)

status: .venv ## how far bench and sweep are (ARGS=watch=true: stays and renews the table)
	@$(python) -m lra.status $(call overrides,model=named_variant task=named_task preset=named_preset seed=named_seeds results=RESULTS) $(value ARGS)

profile: .venv .variant ## measure speed and memory of VARIANT without training (ARGS=protocol=layer: one mixer by itself)
	$(python) -m lra.profile $(call overrides,model=VARIANT preset=PRESET results=RESULTS) $(value ARGS)

check: .venv .variant ## hold VARIANT to the rules that every variant keeps
	$(python) -m lra.check $(call overrides,model=VARIANT) $(value ARGS)

plan: .venv .variant ## parameters, FLOPs, compiled memory of VARIANT, without running it (ARGS=rate=46.8: hours, growth=true: with length)
	$(python) -m lra.plan $(call overrides,model=VARIANT task=TASK preset=PRESET) $(value ARGS)

gallery: .venv ## draw which query-key pairs VARIANT computes (default: all), or a contact sheet of TASK
	$(python) -m lra.gallery $(call overrides,model=VARIANT task=named_task preset=named_preset results=RESULTS data_dir=DATA_DIR) $(value ARGS)

plot: .venv ## draw the chart and the tables from the result files (ARGS=published=true: from ours)
	$(python) -m lra.report $(call overrides,results=RESULTS preset=PRESET variant=named_variant task=named_task) $(value ARGS)

lecture: .venv ## write docs/lecture.md from the result files (ARGS=measure=true: measure first what only it needs)
	$(python) -m lra.lecture $(call overrides,results=RESULTS preset=named_preset) $(value ARGS)

test: .venv ## run the tests
	$(python) -m pytest -n 2 --dist worksteal -m 'not slow' $(value ARGS)

test-full: .venv ## run the tests, the slow ones too
	$(python) -m pytest -n 2 --dist worksteal -m 'not slurm' $(value ARGS)

test-slurm: .venv ## disturb a small sweep in a Slurm on this host (root, slurm-wlm, munge, EXTRAS=slurm)
	@scripts/local_slurm.sh up; trap 'scripts/local_slurm.sh down' EXIT; \
	  SLURM_CONF=$${TMPDIR:-/tmp}/lra-slurm/slurm.conf $(python) -m pytest -s -m slurm tests/lra/cluster/test_slurm.py $(value ARGS)

soak: .venv ## kill training a hundred times, over all variants, and hold its end against a run in peace
	$(python) -m lra.soak $(call overrides,model=VARIANT) $(value ARGS)

lint: .venv ## check style and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

clean: ## remove .work (logs, checkpoints) and caches in this folder; results and .venv stay
	@find . '(' -path ./.git -o -path ./.venv -o -path ./results ')' -prune -o \
	  '(' -path ./.work -o -name __pycache__ -o -name '.*_cache' -o -name .hypothesis ')' -prune -print -exec rm -rf {} + \
	  | sed 's/^/removed /' | grep . || echo 'nothing to remove'

.venv:
	@PYTHON=$(call quote,$(PYTHON)) scripts/environment.sh $(call quote,$(ACCELERATOR)) $(call quote,$(EXTRAS))

.variant: .venv
	@$(if $(VARIANT),,$(python) -m lra.bench --list; echo 'make: VARIANT is missing, for example VARIANT=bigbird' >&2; exit 2)
