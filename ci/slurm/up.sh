#!/usr/bin/env bash
# Starts a real Slurm cluster of several nodes on this machine, without systemd. If parts of the cluster are already running, only the
# missing ones are started. ci/slurm/down.sh ends the cluster.
#
#   ci/slurm/up.sh DIR        keeps keys, logs and state in DIR; then run: export SLURM_CONF=DIR/slurm.conf
#
#   SLURM_NODES   number of nodes, which are called n1, n2, ...          (default 4)
#   SLURM_CPUS    CPUs that each node claims                             (default 2)
#   SLURM_PORT    TCP port of the controller; node i uses this port + i  (default 16817)
#
# Each node is an emulated host with its own host name, /etc/hosts and /dev/shm, in namespaces that end with its processes. If the system
# does not permit namespaces, all nodes have the host name of this machine, which must resolve. In this case the file DIR/one-name exists,
# and MPI must not use shared memory.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[ $# = 1 ] || die "usage: ci/slurm/up.sh DIR"
mkdir -p "$1"
run=$(cd "$1" && pwd)
nodes=${SLURM_NODES:-4} cpus=${SLURM_CPUS:-2} port=${SLURM_PORT:-16817}
export PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd scontrol; do command -v $tool >/dev/null || die "$tool is missing; run ci/setup.sh test"; done

names=()
for ((i = 1; i <= nodes; i++)); do names+=("n$i"); done
mkdir -p "$run"/{munge,state,spool,tmp}
chmod 755 "$run" "$run/state" "$run/spool"
chmod 711 "$run/munge"

# --- hosts
{
  echo "127.0.0.1 localhost"
  for name in "${names[@]}"; do echo "127.0.0.1 $name"; done
} >"$run/hosts"
isolate=() controller=n1
for flags in "" "--user --map-current-user --keep-caps"; do
  # shellcheck disable=SC2206  # one word a flag
  try=(unshare $flags --uts --mount --propagation private)
  if "${try[@]}" sh -c 'hostname n1 && mount -t tmpfs tmpfs /dev/shm' 2>/dev/null; then isolate=("${try[@]}"); break; fi
done
if [ ${#isolate[@]} -gt 0 ]; then
  rm -f "$run/one-name"
  # on NODE COMMAND...: runs the command on the emulated node, in namespaces of its own.
  on() {
    # shellcheck disable=SC2016  # expanded inside
    "${isolate[@]}" sh -c '
      hostname "$1" && mount --bind "$2/hosts" /etc/hosts && mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm || exit 1
      shift 2; exec "$@"' - "$1" "$run" "${@:2}"
  }
  host_of() { echo "$1"; }
else
  controller=$(hostname -s)
  getent hosts "$controller" >/dev/null ||
    die "this machine's host name does not resolve, and Slurm needs it; as root: echo '127.0.0.1 $controller' >> /etc/hosts"
  echo "$controller" >"$run/one-name"
  on() { shift; "$@"; }
  host_of() { hostname -s; }
fi

# alive PIDFILE NAME: succeeds if the process in the file is running. The name is compared, because the number may belong to another process
# by now.
alive() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] &&
    ! grep -q '^State:.Z' "/proc/$pid/status"
}
# wait_for COMMAND...: repeats the command until it succeeds, for up to 20 seconds.
wait_for() {
  local i
  for ((i = 0; i < 200; i++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  die "still waiting after 20 seconds: $*"
}

# --- munge, with a key and a socket for this cluster alone
munge=$run/munge
if [ ! -s "$munge/munge.key" ]; then
  (umask 077 && head -c 1024 /dev/urandom >"$munge/munge.key")
fi
if ! alive "$munge/munged.pid" munged; then
  rm -f "$munge"/munge.socket.2*
  # Without --force, munged refuses a directory in /tmp, because other users can write to /tmp.
  munged --force --key-file="$munge/munge.key" --socket="$munge/munge.socket.2" --pid-file="$munge/munged.pid" \
    --log-file="$munge/munged.log" --seed-file="$munge/munged.seed" --num-threads=2 2>"$munge/munged.err" ||
    die "munged did not start: $(cat "$munge/munged.err")"
fi
key_works() { munge -n --socket="$munge/munge.socket.2" | unmunge --socket="$munge/munge.socket.2"; }
wait_for key_works

# --- configuration
lines=""
for ((i = 1; i <= nodes; i++)); do
  name=${names[i - 1]}
  lines+="NodeName=$name NodeHostname=$(host_of "$name") NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus RealMemory=1000 State=UNKNOWN"$'\n'
done
list=$(IFS=,; echo "${names[*]}")
sed -e "s|@HOST@|$controller|" -e "s|@PORT@|$port|" -e "s|@USER@|$(id -un)|" -e "s|@RUN@|$run|" -e "s|@NODELIST@|$list|" \
  "$CI_DIR/slurm/slurm.conf" | awk -v nodes="$lines" '$0 == "@NODES@" { printf "%s", nodes; next } { print }' >"$run/slurm.conf.new"
if alive "$run/slurmctld.pid" slurmctld && ! cmp -s "$run/slurm.conf.new" "$run/slurm.conf"; then
  die "a cluster with another configuration runs in $run; end it first: ci/slurm/down.sh $run"
fi
mv "$run/slurm.conf.new" "$run/slurm.conf"
export SLURM_CONF=$run/slurm.conf
touch "$run/jobcomp.txt"

# --- daemons, which go into the background themselves
if ! alive "$run/slurmctld.pid" slurmctld; then on "$controller" slurmctld -f "$SLURM_CONF" </dev/null; fi
wait_for scontrol ping
for name in "${names[@]}"; do
  mkdir -p "$run/spool/$name" "$run/tmp/$name"
  if ! alive "$run/slurmd.$name.pid" slurmd; then on "$name" slurmd -f "$SLURM_CONF" -N "$name" </dev/null; fi
done
all_up() { [ "$(sinfo -h -p main -N -o %T | grep -cE '^(idle|allocated|mixed|completing)$')" = "$nodes" ]; }
wait_for all_up
say "Slurm is up with $nodes nodes: export SLURM_CONF=$SLURM_CONF"
