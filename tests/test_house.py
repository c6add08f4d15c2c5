"""The house itself: direction of imports, locks, what is committed, Make's targets."""

import ast
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("lra", "tasks", "models")
ALLOWED_AT_TOP = {
    *(".ci", ".gitignore", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"),
    *("configs", "docs", "lra", "models", "requirements", "results", "scripts", "tasks", "tests"),
}
ACCELERATORS = ("cpu", "cuda", "tpu")
EXTRAS = ("slurm", "ray", "data")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)


# Imports


def imported(file: Path, root: Path) -> Iterator[str]:
    """Absolute names of the modules that a file imports, anywhere in it."""
    package = file.relative_to(root).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def wrong_imports(root: Path) -> set[str]:
    """`file imports module` for each import against the direction: lra -> tasks, models; jax stays out of tasks."""
    forbidden = {
        "lra": ("tests",),
        "tasks": ("lra", "models", "tests", "jax", "flax", "optax", "orbax"),
        "models": ("lra", "tasks", "tests"),
    }
    return {
        f"{file.relative_to(root)} imports {module}"
        for room, names in forbidden.items()
        for file in (root / room).rglob("*.py")
        for module in imported(file, root)
        if module.split(".")[0] in names
    }


def test_imports_point_one_way():
    assert all(any((ROOT / room).rglob("*.py")) for room in ROOMS)
    assert wrong_imports(ROOT) == set()


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("models/dense/transformer.py", "from lra import config"),
        ("models/encoder.py", "def f():\n    import tasks.listops"),
        ("models/dense/transformer.py", "from ...tasks import task"),
        ("tasks/listops.py", "import importlib\nimportlib.import_module('models.encoder')"),
        ("tasks/task.py", "import jax.numpy as jnp"),
        ("lra/train.py", "from tests import house"),
    ],
)
def test_wrong_import_is_found(tmp_path: Path, file: str, line: str):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(line)
    assert {found.split(" ")[0] for found in wrong_imports(tmp_path)} == {file}


def test_supervisor_report_and_tasks_do_not_bring_jax():
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted((ROOT / "tasks").rglob("*.py"))
    ]
    modules += ["lra.bench", "lra.config", "lra.report.__main__", "lra.lecture.__main__"]
    loaded = f"import sys, {', '.join(modules)}; print('jax' in sys.modules)"
    assert run([sys.executable, "-c", loaded]).stdout == "False\n"


def test_rooms_are_regular_packages():
    """Without __init__.py a foreign `models` anywhere on the path would win over ours."""
    folders = {file.parent for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_foreign_models_package_changes_nothing(tmp_path: Path):
    for name in ROOMS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the foreign package was imported')")
    listed = run([sys.executable, "-m", "lra.bench", "--list"], PYTHONPATH=str(tmp_path)).stdout
    assert "bigbird" in listed.splitlines()
    where = [sys.executable, "-c", "import models, tasks; print(models.__file__, tasks.__file__)"]
    assert run(where, PYTHONPATH=str(tmp_path)).stdout == f"{ROOT}/models/__init__.py {ROOT}/tasks/__init__.py\n"


# Locks


def pins(name: str) -> dict[str, set[str]]:
    """Package -> versions of a lock; fails on a line that is no pin with hashes."""
    found: dict[str, set[str]] = {}
    text = re.sub(r"#.*", "", (ROOT / "requirements" / f"{name}.txt").read_text())
    for line in filter(str.strip, re.sub(r"\\\n", " ", text).splitlines()):
        pin = re.fullmatch(r"([a-z0-9.-]+)==([^\s;]+)( ; [^-]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line)
        assert pin, f"requirements/{name}.txt: not a version with hashes: {line[:80]}"
        found.setdefault(pin[1], set()).add(pin[2])
    return found


def package(requirement: str) -> str:
    """Canonical name of the package in a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=;~!]", requirement)[0]).lower()


@pytest.mark.parametrize("name", ["build", *ACCELERATORS, *EXTRAS])
def test_lock_has_hashes_and_no_address(name: str):
    assert pins(name)
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text
    assert "index" not in text
    assert not re.search(r"^\s*-(?!-hash)|find-links", text, re.MULTILINE)


@pytest.mark.parametrize("name", [*ACCELERATORS[1:], *EXTRAS])
def test_locks_fit_into_one_environment(name: str):
    base = pins("cpu")
    assert {key: versions for key, versions in pins(name).items() if key in base and versions != base[key]} == {}


def test_locks_hold_every_dependency():
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {"cuda", "tpu", "slurm", "ray", "data", "dev"}
    for name in ACCELERATORS:
        wanted = [*PROJECT["dependencies"], *extras["dev"], *extras.get(name, [])]
        assert {package(requirement) for requirement in wanted} <= set(pins(name))
        assert pins(name)["jax"] == {"0.10.2"}
    for name in EXTRAS:
        assert {package(requirement) for requirement in extras[name]} <= set(pins(name))
    assert {"jax-cuda12-plugin", "nvidia-cudnn-cu12"} <= set(pins("cuda"))
    assert "libtpu" in pins("tpu")


def test_tensorflow_is_nowhere():
    unwanted = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tf-keras", "keras"}
    required = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    assert unwanted.isdisjoint(map(package, required))
    for name in (*ACCELERATORS, *EXTRAS):
        assert unwanted.isdisjoint(pins(name))


# What is committed


def committed() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return run(["git", "ls-files", "-z"]).stdout.split("\0")[:-1]


def test_top_level_holds_only_the_rooms():
    assert {file.split("/")[0] for file in committed()} <= ALLOWED_AT_TOP


def test_no_committed_file_names_a_machine_path_or_registry():
    folders = "|".join(["work", "root", "home"])
    hosts = "|".join(["pypi" + r"\.org", "python" + "hosted", "registry" + r"\.npmjs"])
    private = re.compile(rf"(?<![\w.~}}$*-])/(?:{folders})/\w|(?:{hosts})|--(?:extra-)?index" + "-url[ =]")
    found = []
    for file in committed():
        path = ROOT / file
        if path.is_file() and path.suffix not in (".npz", ".npy", ".png", ".pdf"):
            text = path.read_text(errors="ignore")
            found += [f"{file}: {match[0]}" for match in private.finditer(text)]
    assert found == []


def test_ci_runs_what_the_readme_says():
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert "make test" in (ROOT / "README.md").read_text()


def test_tests_reach_no_network():
    with pytest.raises(OSError, match="asked for the network"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


# Make


def test_help_names_every_target_and_variable():
    lines = run(["make"]).stdout.splitlines()
    named = {line.split()[0] for line in lines if re.match(r"  \S+ +\S", line)}
    assert named == {*TARGETS, *re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE)}
    phony = re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    assert phony
    assert set(TARGETS) <= set(phony[1].split())


def test_module_of_every_target_exists():
    modules = re.findall(r"-m (lra\.[.\w]+)", MAKEFILE)
    assert modules
    for module in modules:
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


@pytest.fixture
def copied_makefile(tmp_path: Path) -> Path:
    """The Makefile in a folder whose Python writes down its arguments."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    program(tmp_path / "scripts/environment.sh", "exit 0")
    program(
        tmp_path / ".venv/bin/python",
        f"exec {sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' \"$@\"",
    )
    for task in ("mini/text", "mini/listops", "mini/path_x", "lra/listops", "lra/image"):
        file = tmp_path / "configs/sizes" / f"{task}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def made(folder: Path, *words: str) -> list[str]:
    return json.loads(run(["make", "--silent", *words], cwd=folder).stdout.splitlines()[-1])


def test_bench_passes_its_variables(copied_makefile: Path):
    defaults = ["task=listops,text", "preset=mini", "seed=0", "launcher=local"]
    assert made(copied_makefile, "bench", "VARIANT=bigbird") == ["-m", "lra.bench", "model=bigbird", *defaults]
    words = (
        "VARIANT=a.b.C,local",
        "TASK=text",
        "PRESET=lra",
        "SEEDS=0,1",
        "LAUNCHER=ray",
        "RESULTS=/x y/z",
        "DATA_DIR=d'e",
    )
    given = [
        "model=a.b.C,local",
        "task=text",
        "preset=lra",
        "seed=0,1",
        "launcher=ray",
        "results=/x y/z",
        "data_dir=d'e",
    ]
    assert made(copied_makefile, "bench", *words) == ["-m", "lra.bench", *given]


def test_tasks_are_those_that_every_preset_has_sizes_for(copied_makefile: Path):
    for preset, tasks in (("lra", "listops,image"), ("mini,lra", "listops"), ("lra,mini", "listops")):
        for target in ("bench", "plan"):
            assert f"task={tasks}" in made(copied_makefile, target, "VARIANT=local", f"PRESET={preset}")


def test_data_prepares_all_unless_named(copied_makefile: Path):
    assert made(copied_makefile, "data") == ["-m", "lra.data"]
    words = made(copied_makefile, "data", "TASK=text", "PRESET=mini", "DATA_DIR=/x y", "ARGS=download=true")
    assert words[2:] == ["task=text", "preset=mini", "data_dir=/x y", "download=true"]


def test_plot_draws_all_unless_named(copied_makefile: Path):
    assert made(copied_makefile, "plot") == ["-m", "lra.report", "preset=mini"]
    assert made(copied_makefile, "plot", "VARIANT=all", "RESULTS=r")[2:] == ["results=r", "preset=mini"]
    named = made(copied_makefile, "plot", "VARIANT=local,bigbird", "TASK=text", "PRESET=lra")
    assert named[2:] == ["preset=lra", "variant=local,bigbird", "task=text"]


@pytest.mark.parametrize(
    ("args", "arrive"),
    [
        ("train.steps=3 force=true", ["train.steps=3", "force=true"]),
        ("'note=two words' \"name=it's\"", ["note=two words", "name=it's"]),
        ("a={b:1,c:2} d=[1,2] +e=*", ["a={b:1,c:2}", "d=[1,2]", "+e=*"]),
        ("'a=${oc.env:HOME}' 'b=\"q\"'", ["a=${oc.env:HOME}", 'b="q"']),
    ],
)
def test_args_arrive_as_quoted(copied_makefile: Path, args: str, arrive: list[str]):
    for trap in ("+e=file", "d=1"):  # what the shell would put in place of +e=* and d=[1,2]
        (copied_makefile / trap).touch()
    for target in ("data", "bench", "check", "plan", "plot", "test"):
        assert made(copied_makefile, target, "VARIANT=local", f"ARGS={args}")[-len(arrive) :] == arrive


def test_missing_variant_lists_the_choices(copied_makefile: Path):
    for target in ("bench", "check", "plan"):
        done = run(["make", target], cwd=copied_makefile, check=False)
        assert done.returncode == 2
        assert json.loads(done.stdout) == ["-m", "lra.bench", "--list"]
        assert "VARIANT is missing" in done.stderr.splitlines()[0]


def test_a_misspelt_variable_is_refused(copied_makefile: Path):
    done = run(["make", "bench", "VARIANT=local", "SEED=7"], cwd=copied_makefile, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown variable SEED; allowed: VARIANT TASK PRESET SEEDS" in done.stderr


def test_variables_do_not_leak_into_the_environment(copied_makefile: Path):
    program(copied_makefile / ".venv/bin/python", "env")
    words = [f"{name}=leak" for name in ("VARIANT", "TASK", "SEEDS", "RESULTS", "DATA_DIR", "ARGS", "PYTHON")]
    seen = run(["make", "--silent", "bench", *words], cwd=copied_makefile, PYTHONSAFEPATH="1").stdout
    assert "PATH=" in seen
    assert not re.search(r"^\w+=leak$|PYTHONSAFEPATH", seen, re.MULTILINE)


def test_clean_keeps_results_and_environment(copied_makefile: Path):
    gone = (".work/run/log", "lra/__pycache__/a.pyc", ".mypy_cache/x", "tests/.hypothesis/x")
    kept = ("results/runs/scores/x", "results/__pycache__/x", ".venv/lib/__pycache__/x", "configs/sizes/mini/text.yaml")
    for name in (*gone, *kept):
        (copied_makefile / name).parent.mkdir(parents=True, exist_ok=True)
        (copied_makefile / name).touch()
    said = run(["make", "clean"], cwd=copied_makefile).stdout.split()
    assert {"./.work", "./lra/__pycache__"} <= set(said)
    assert not any((copied_makefile / name).exists() for name in gone)
    assert all((copied_makefile / name).exists() for name in kept)
    assert run(["make", "clean"], cwd=copied_makefile).stdout == "nothing to remove\n"


# scripts/environment.sh, with a Python that only writes down what it was asked to do

FAKE_PYTHON = """
case "$*" in
    *version_info*) echo 3.12 ;;
    *"-m venv"*) echo venv >>log; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
    *"-m pip"*) if [ -e broken ]; then kill -9 $PPID; exit 9; fi; sleep 0.1; echo "pip $*" >>log ;;
    *ensurepip*) ;;
    --version) echo Python 3.12 ;;
    *) exit 1 ;;
esac
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with the script, locks, and on `tools/` a Python 3.12 that installs nothing."""
    program(tmp_path / "scripts/environment.sh", (ROOT / "scripts/environment.sh").read_text())
    program(tmp_path / "tools/python3.12", FAKE_PYTHON)
    (tmp_path / "requirements").mkdir()
    for name in ("build", *ACCELERATORS, *EXTRAS):
        (tmp_path / "requirements" / f"{name}.txt").write_text(name)
    return tmp_path


def environment(house: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{house}/tools:{system_tools(house)}", **variables}
    return run(["scripts/environment.sh", *words], cwd=house, check=False, **variables)


def system_tools(house: Path) -> Path:
    """A folder with the few programs that the script needs and no Python."""
    folder = house / "system"
    folder.mkdir(exist_ok=True)
    needed = "awk bash cat cksum cp dirname env flock grep mkdir mv rm rmdir sed sleep"
    for name in needed.split():
        found = [Path(place) / name for place in os.defpath.split(":") if (Path(place) / name).exists()]
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found[0])
    return folder


def installed(house: Path) -> list[str]:
    """The steps taken so far: `venv`, or the locks that pip was given."""
    lines = (house / "log").read_text().splitlines() if (house / "log").exists() else []
    return [" ".join(re.findall(r"requirements/(\w+)", line)) or line for line in lines]


def test_environment_is_made_once(house: Path):
    for _ in range(2):
        assert environment(house, "cpu").returncode == 0
        assert installed(house) == ["venv", "build", "cpu"]
    flags = (house / "log").read_text()
    assert "--require-hashes" in flags
    assert "--no-build-isolation" in flags


def test_environment_follows_lock_extras_and_accelerator(house: Path):
    environment(house, "cpu")
    environment(house, "cpu", "data")
    assert installed(house)[3:] == ["data"]
    environment(house, "cpu")
    environment(house, "auto")
    assert len(installed(house)) == 4, "an extra stays, and auto keeps what .venv was made for"
    environment(house, "cuda")
    assert installed(house)[4:] == ["venv", "build", "cuda data"]
    environment(house, "auto")
    assert len(installed(house)) == 7
    (house / "requirements/cuda.txt").write_text("a newer version")
    environment(house, "auto")
    assert installed(house)[7:] == ["venv", "build", "cuda data"]


def test_interrupted_installation_is_not_done(house: Path):
    (house / "broken").touch()
    assert environment(house, "cpu").returncode != 0
    (house / "broken").unlink()
    assert environment(house, "cpu").returncode == 0
    assert installed(house) == ["venv", "venv", "build", "cpu"]


def test_environment_of_another_checkout_is_left_alone(house: Path):
    (house / "others").mkdir()
    (house / ".venv").symlink_to("others")
    done = environment(house, "cpu")
    assert (done.returncode, installed(house)) == (1, [])
    assert ".venv is a link" in done.stderr


def test_two_at_once_make_one_environment(house: Path):
    variables = {**os.environ, "PATH": f"{house}/tools:{system_tools(house)}"}
    both = [subprocess.Popen(["scripts/environment.sh", "cpu"], cwd=house, env=variables) for _ in range(2)]
    assert [process.wait(timeout=30) for process in both] == [0, 0]
    assert installed(house) == ["venv", "build", "cpu"]


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (None, r"no Python 3\.11, 3\.12 or 3\.13 found; install one"),
        ("exit 127", r"no Python 3\.11, 3\.12 or 3\.13 found; install one"),
        ("echo 3.10", r"no Python 3\.11, 3\.12 or 3\.13 found; install one"),
        ("case $* in *version_info*) echo 3.12 ;; *ensurepip*) exit 1 ;; esac", "apt install python3.12-venv"),
    ],
)
def test_missing_python_says_what_to_install(house: Path, python: str | None, message: str):
    (house / "tools/python3.12").unlink()
    if python:
        program(house / "tools/python3.12", python)
    done = environment(house, "cpu")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert re.search(message, done.stderr)
    assert not (house / ".venv").exists()


def test_unfit_python_is_passed_over(house: Path):
    program(house / "tools/python3.13", "exit 127")
    assert environment(house, "cpu").returncode == 0
    named = environment(house, "cuda", PYTHON="python3.13")
    assert named.returncode == 1
    assert "PYTHON=python3.13 does not run" in named.stderr


@pytest.mark.parametrize(
    ("words", "choices"), [(["gpu"], "auto, cpu, cuda, tpu"), (["cpu", "daat"], "slurm, ray, data")]
)
def test_unknown_accelerator_or_extra_is_refused(house: Path, words: list[str], choices: str):
    done = environment(house, *words)
    assert done.returncode == 1
    assert choices in done.stderr
    assert installed(house) == []


def program(file: Path, script: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script if script.startswith("#!") else f"#!/usr/bin/env bash\n{script}\n")
    file.chmod(0o755)


def run(command: list[str], cwd: Path = ROOT, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done
