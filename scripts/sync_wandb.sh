#!/usr/bin/env bash
# Sends what was tracked offline to Weights & Biases: scripts/sync_wandb.sh [WORK FOLDER] [OPTION OF wandb sync ...]
# Attempts at one run have one id, and are sent in the order in which they were made; what was sent before is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.work
if [[ $# -gt 0 && $1 != -* ]]; then folder=$1; shift; fi
[[ -x .venv/bin/wandb ]] || { echo "sync_wandb: .venv is missing, make it with: make setup" >&2; exit 1; }
[[ -d $folder ]] || { echo "sync_wandb: there is no folder $folder" >&2; exit 2; }
# The names begin with the time of the attempt, and folders of W&B lie side by side in the folder of their run.
mapfile -d '' attempts < <(find "$folder" -type d -path '*/wandb/offline-run-*-*' -prune -print0 | sort -z)
[[ ${#attempts[@]} -gt 0 ]] || { echo "nothing was tracked offline in $folder"; exit 0; }
exec .venv/bin/wandb sync --yes "$@" "${attempts[@]}"
