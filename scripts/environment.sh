#!/usr/bin/env bash
# Makes .venv ready: scripts/environment.sh ACCELERATOR [EXTRA,...]. Called by every Make target that runs Python; does
# nothing (in milliseconds) when .venv was completed from the present locks.
set -euo pipefail
cd "$(dirname "$0")/.."
accelerator=${1:-auto} extras=${2:-}
stamp=.venv/.complete   # the checksums of the locks that .venv was completed from; written last

die() {
    echo "setup: $*" >&2
    exit 1
}

detect_accelerator() {
    if [ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ]; then
        echo cuda
    elif [ -e /dev/accel0 ]; then
        echo tpu
    # Newer TPUs are bound to vfio, as other devices may be: the PCI numbers tell them apart.
    elif [ -d /dev/vfio ] &&
        grep -qsE '^pci:v00001AE0d000000(27|56|5E|62|63|6F|76)' /sys/bus/pci/devices/*/modalias; then
        echo tpu
    else
        echo cpu
    fi
}

# Sets installed and wanted: lines of "checksum size lock", the accelerator's lock second.
compare() {
    installed="" wanted=""
    if [ -x .venv/bin/python ] && [ -f "$stamp" ]; then installed=$(<"$stamp"); fi
    local chosen=$accelerator lock
    if [ "$chosen" = auto ]; then
        # A finished .venv keeps what it was made for: a login node without a GPU must not undo the cluster's choice.
        chosen=$(sed -nE '2s|.*/(.*)\.txt$|\1|p' <<<"$installed")
        chosen=${chosen:-$(detect_accelerator)}
    fi
    local locks=(requirements/build.txt "requirements/$chosen.txt")
    for lock in slurm ray data; do
        if [[ ",$extras," == *",$lock,"* || $installed == *"requirements/$lock.txt"* ]]; then
            locks+=("requirements/$lock.txt")
        fi
    done
    wanted=$(cksum "${locks[@]}")
}

# One make at a time; a second one waits. The lock dies with its holder, where flock exists.
acquire() {
    local notice="setup: another make is preparing .venv, waiting for it"
    if command -v flock >/dev/null; then
        exec 9>.venv.lock
        flock -n 9 || { echo "$notice" && flock 9; }
    else
        local waiting=""
        until mkdir .venv.lock 2>/dev/null; do
            [ -n "$waiting" ] || echo "$notice (if none is running: rmdir .venv.lock)"
            waiting=yes
            sleep 1
        done
        trap 'rmdir .venv.lock' EXIT
    fi
}

# Prints a Python 3.11 to 3.13 that runs (a version manager's shim may not) and can make environments.
find_python() {
    local candidate version incomplete="" candidates=(python3.13 python3.12 python3.11 python3)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        version=$("$candidate" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case $version in 3.11 | 3.12 | 3.13) ;; *) continue ;; esac
        if "$candidate" -I -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        incomplete=$version
    done
    if [ -n "$incomplete" ]; then
        die "Python $incomplete has no venv module; install it (Debian, Ubuntu: apt install python$incomplete-venv)"
    elif [ -n "${PYTHON:-}" ]; then
        die "PYTHON=$PYTHON does not run or is not Python 3.11, 3.12 or 3.13"
    fi
    die "no Python 3.11, 3.12 or 3.13 found; install one (Debian, Ubuntu: apt install python3 python3-venv) or name it: PYTHON=/path/to/python"
}

# pip_install LOCK...; -I keeps PYTHONPATH and the user's packages out, --no-build-isolation keeps unhashed build
# tools out (build.txt brings them), --no-deps because a lock is complete.
pip_install() {
    .venv/bin/python -I -m pip install --quiet --disable-pip-version-check --no-user --no-deps --require-hashes \
        --no-build-isolation "${@/#/--requirement=}" || die "the installation stopped, see above; the same command tries again"
}

case $accelerator in auto | cpu | cuda | tpu) ;; *) die "ACCELERATOR=$accelerator is none of auto, cpu, cuda, tpu" ;; esac
for extra in ${extras//,/ }; do
    case $extra in slurm | ray | data) ;; *) die "EXTRAS=$extra is none of slurm, ray, data" ;; esac
done

compare
[ "$installed" = "$wanted" ] && exit
acquire
compare
[ "$installed" = "$wanted" ] && exit

missing=$(grep -vxFf <(echo "$installed") <<<"$wanted" || true)
stale=$(grep -vxFf <(echo "$wanted") <<<"$installed" || true)
if [ -z "$installed" ] || [ -n "$stale" ]; then   # packages of another lock would linger: begin anew
    missing=$wanted
    # Python would empty the folder that it leads to, perhaps another checkout's, and then stop.
    [ ! -L .venv ] || die ".venv is a link and not made from the present locks; remove it, and the same command makes a folder"
    python=$(find_python)
    rm -f "$stamp"
    echo "setup: making .venv with $("$python" --version)"
    "$python" -I -m venv --clear .venv || die "$python could not make .venv, see above"
    pip_install requirements/build.txt
fi
read -ra locks < <(awk '$3 != "requirements/build.txt" { printf "%s ", $3 }' <<<"$missing"; echo)
echo "setup: installing ${locks[*]} (once, a minute or more)"
started=$SECONDS
pip_install "${locks[@]}"
echo "$wanted" >"$stamp.new" && mv "$stamp.new" "$stamp"
echo "setup: done in $((SECONDS - started)) s"
