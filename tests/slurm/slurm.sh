#!/usr/bin/env bash
# A real Slurm with one node on this machine, for tests: slurm.sh start|stop
# Needs root and Debian's packages (slurm-wlm, munge), which it installs. No systemd, no cgroups,
# no accounting; a GPU is played by /dev/null, so that GPU jobs are scheduled.
set -euo pipefail

config=/etc/slurm
state=/var/spool/permafrost-slurm
host=$(hostname -s)

await() {
    local seconds=$1
    shift
    for _ in $(seq $((seconds * 5))); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    echo "slurm.sh: after ${seconds}s still failing: $*" >&2
    return 1
}

running() { [ -s "$state/$1.pid" ] && kill -0 "$(cat "$state/$1.pid")" 2>/dev/null; }

install() {
    dpkg -s slurm-wlm munge >/dev/null 2>&1 && return
    # without systemd the packages' own start-up scripts fail
    [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
}

configure() {
    mkdir -p "$config" "$state/controller" "$state/node"
    getent hosts "$host" >/dev/null || echo "127.0.0.1 $host" >>/etc/hosts
    ln -sfn /dev/null "$state/gpu0"
    echo "NodeName=$host Name=gpu Type=fake File=$state/gpu0" >"$config/gres.conf"
    echo "CgroupPlugin=autodetect" >"$config/cgroup.conf"
    cat >"$config/slurm.conf" <<CONFIG
ClusterName=permafrost
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
MinJobAge=600
KillWait=2
InactiveLimit=0
Waittime=0
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/node
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
GresTypes=gpu
DefMemPerCPU=500
AccountingStorageType=accounting_storage/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=${SLURM_TEST_CPUS:-4} RealMemory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo) Gres=gpu:fake:1 State=UNKNOWN
PartitionName=cpu Nodes=$host Default=YES MaxTime=1-00:00:00 OverTimeLimit=0 State=UP
PartitionName=gpu Nodes=$host Default=NO MaxTime=1-00:00:00 OverTimeLimit=0 State=UP
CONFIG
}

start_munge() {
    munge -n </dev/null 2>/dev/null | unmunge >/dev/null 2>&1 && return
    [ -s /etc/munge/munge.key ] || head -c 1024 /dev/urandom >/etc/munge/munge.key
    mkdir -p /run/munge /var/log/munge /var/lib/munge
    chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
    chmod 400 /etc/munge/munge.key
    chmod 755 /run/munge
    runuser -u munge -- /usr/sbin/munged
    await 10 sh -c 'munge -n </dev/null | unmunge'
}

start() {
    install
    configure
    start_munge
    running slurmctld || slurmctld -c
    await 20 scontrol ping
    running slurmd || slurmd
    await 20 sh -c "sinfo -h -o %T | grep -qE '^(idle|mixed|allocated)'" ||
        scontrol update NodeName="$host" State=RESUME
    await 20 srun -n1 --mem=50 true
}

stop() {
    for daemon in slurmd slurmctld; do
        if running "$daemon"; then kill "$(cat "$state/$daemon.pid")"; fi
    done
    for daemon in slurmd slurmctld; do
        for _ in $(seq 50); do running "$daemon" || break; sleep 0.2; done
    done
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    *) echo "usage: slurm.sh start|stop" >&2; exit 2 ;;
esac
