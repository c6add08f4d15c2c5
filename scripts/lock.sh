#!/usr/bin/env bash
# Re-creates requirements/*.txt from pyproject.toml: exact versions with hashes, for Python 3.11 to 3.13 on Linux and
# macOS. Run by `make lock`. Needs uv (pip install uv), which nothing else here does.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "lock: uv is missing, install it with: pip install uv" >&2; exit 1; }

# compile NAME OPTION...: the locks hold no registry address, so that each machine uses the registry it is set up for
compile() {
    local file=requirements/$1.txt
    shift
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --custom-compile-command "make lock" --output-file "$file" "$@" >/dev/null
    echo "$file: $(grep -c '==' "$file") pins"
}

# What the two packages that come as source only (antlr4-python3-runtime, promise) are built with.
echo setuptools | compile build -

# Everything but cpu.txt may add packages and never changes a version, so that the locks fit into one environment and
# machines differ by their device alone.
compile cpu pyproject.toml --extra dev
for name in cuda tpu; do
    compile "$name" pyproject.toml --extra dev --extra "$name" --constraint requirements/cpu.txt
done

for name in slurm ray data; do
    python3 - "$name" <<'PY' | compile "$name" - --constraint requirements/cpu.txt
import sys, tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")
PY
done
