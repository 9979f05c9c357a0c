# A Slurm cluster on this machine, for tests, which source this. Where Slurm is missing, the test is left out with a sentence, unless
# DING_TEST_SLURM=1 asks for it. Nothing of the cluster is seen outside: the test has processes and a network of its own, which end with it.

export PATH=$PATH:/usr/sbin

# enter_namespaces PACKAGES PROGRAM...: begins the test again, as `TEST inside`. PROGRAM... of these packages are needed, too.
enter_namespaces() {
  local packages="slurm $1" program
  shift
  for program in sbatch slurmctld slurmd munged "$@"; do
    command -v "$program" >/dev/null && continue
    if [ "${DING_TEST_SLURM-}" = 1 ]; then
      echo "$(basename "$0" .sh) cannot run: $program is missing; run tools/setup $packages" >&2
      exit 1
    fi
    echo "left out: $program is missing, and DING_TEST_SLURM=1 does not ask for it (tools/setup $packages)"
    exit 0
  done
  local as_root=(--user --map-root-user)
  [ "$(id -u)" != 0 ] || as_root=()
  exec unshare "${as_root[@]}" --net --mount --pid --fork --kill-child -- "$0" inside
}

# wait_until SECONDS EXPRESSION. The test has `fail MESSAGE`.
wait_until() {
  local end=$((SECONDS + $1))
  until eval "$2"; do
    [ $SECONDS -lt $end ] || fail "not within $1 s: $2"
    sleep 0.3
  done
}

# start_cluster NODES CPUS: in the namespaces, nodes n1, n2, ... with so many processors each. Their files are in ./cluster; sockets there
# need a short path.
start_cluster() {
  local host node nodes
  host=$(hostname)
  mapfile -t nodes < <(seq -f n%.0f "$1")
  mount -t proc proc /proc
  ip link set dev lo up
  ip link add eth0 type veth peer name eth1
  ip addr add 10.7.0.1/24 dev eth0
  ip link set dev eth0 up
  mkdir cluster cluster/state "${nodes[@]/#/cluster/}"
  export SLURM_CONF=$PWD/cluster/slurm.conf
  # cred_expire and KillWait: a job that is requeued waits so long.
  cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(10.7.0.1)
SlurmctldPort=17000
AuthType=auth/munge
AuthInfo=socket=$PWD/cluster/munge,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmUser=root
SlurmctldPidFile=$PWD/cluster/slurmctld.pid
SlurmdPidFile=$PWD/cluster/%n.pid
SlurmdSpoolDir=$PWD/cluster/%n
StateSaveLocation=$PWD/cluster/state
SlurmctldLogFile=$PWD/cluster/slurmctld.log
SlurmdLogFile=$PWD/cluster/%n.log
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
SlurmdTimeout=4
KillWait=15
ReturnToService=2
MailProg=/bin/true
NodeName=n[1-$1] NodeHostname=$host NodeAddr=10.7.0.1 Port=[17001-$((17000 + $1))] CPUs=$2 RealMemory=4000
PartitionName=main Nodes=ALL Default=YES State=UP
END
  head -c 1024 /dev/urandom >cluster/key
  chmod 600 cluster/key
  munged --force --socket=cluster/munge --key-file=cluster/key --pid-file="$PWD/cluster/munged.pid" --log-file="$PWD/cluster/munged.log" \
    --seed-file="$PWD/cluster/seed"
  slurmctld -c
  for node in "${nodes[@]}"; do slurmd -N "$node"; done
  wait_until 30 "[ \"\$(sinfo -h -o '%D %t' 2>/dev/null)\" = '$1 idle' ]"
}
