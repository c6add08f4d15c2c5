#!/usr/bin/env bash
# A Slurm of two nodes on this host, from Debian's packages, to try things on: scripts/local_slurm.sh up|down
# Everything it writes lies in one folder; no system service or file is touched. After `up`, programs find it through
#     export SLURM_CONF=${TMPDIR:-/tmp}/lra-slurm/slurm.conf
set -euo pipefail
folder=${TMPDIR:-/tmp}/lra-slurm
host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
PATH=$PATH:/usr/sbin

die() {
    echo "local_slurm: $*" >&2
    exit 1
}

configure() {
    cat >"$SLURM_CONF" <<CONF
ClusterName=lra
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdSpoolDir=$folder/spool.%n
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmdLogFile=$folder/slurmd.%n.log
SlurmdParameters=config_overrides
# By the tree of processes: runs put their children into sessions of their own.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=30
JobRequeue=1
# The first is named as the host: by its name the processes of one run find each other.
NodeName=$host NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=1
NodeName=$host-two NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=1
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
}

up() {
    [ "$(id -u)" = 0 ] || die "needs root"
    local program
    for program in munged slurmctld slurmd sinfo; do
        command -v "$program" >/dev/null || die "$program is missing: apt-get install slurm-wlm munge"
    done
    [ ! -e "$folder/slurmctld.pid" ] || die "it is up already; scripts/local_slurm.sh down ends it"
    mkdir -p "$folder/state" "$folder/spool.$host" "$folder/spool.$host-two"
    chmod 755 "$folder"
    (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
    configure
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
    slurmctld -c
    slurmd -N "$host"
    slurmd -N "$host-two"
    local _
    for _ in $(seq 60); do
        if [ "$(sinfo --noheader --Node --format=%T 2>/dev/null | sort -u)" = idle ]; then
            sinfo --Node
            echo "export SLURM_CONF=$SLURM_CONF"
            return
        fi
        sleep 1
    done
    sinfo --Node || true
    die "the nodes did not come up, see $folder/*.log"
}

down() {
    [ -d "$folder" ] || return 0
    scancel --user="$(id -un)" 2>/dev/null || true
    local file pid _
    for file in "$folder"/slurmd.*.pid "$folder"/{slurmctld,munged}.pid; do
        [ -s "$file" ] || continue
        pid=$(<"$file")
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    done
    rm -rf "$folder"
}

case ${1:-} in
    up) up ;;
    down) down ;;
    *) die "up or down?" ;;
esac
