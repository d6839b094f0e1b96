#!/usr/bin/env bash
# Runs jobs on a real Slurm cluster of four nodes on this machine, and checks their results:
#
# - Ferret by the job script: the output is that of one rank, and a failed job has the right exit code.
# - A farm (mandelbrot) whose ranks are killed.
# - Runs with run directories (runs.sh), runs that end early (ends.sh), and the guide to a first job (newcomer.sh).
# - A cancelled job, which leaves no process behind.
#
# The cluster is removed at the end.
#
#   ci/slurm/test.sh BIN_DIR [MPICH_BIN_DIR]
#
# The first directory has armature, armature-probe, armature-stream, armature-workflow, ferret, mandelbrot and sor, built for Open MPI. The second one
# has ferret and armature-probe, built for MPICH. Four to five minutes.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=ci/checks.sh
. "$CI_DIR/checks.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"

# Maximum time of a job from its submission to its end, in seconds. The jobs take seconds.
LIMIT=${SLURM_TEST_LIMIT:-180}

usage="usage: ci/slurm/test.sh BIN_DIR [MPICH_BIN_DIR]"
for program in "${1:?$usage}"/{armature,armature-probe,armature-stream,armature-workflow,ferret,mandelbrot,sor} ${2:+"$2/ferret"}; do
  [ -x "$program" ] || die "$program is missing; build it first"
done
work=$(mktemp -d)
newcomer=
leave() {
  [ -z "$newcomer" ] || kill "$newcomer" 2>/dev/null
  "$CI_DIR/slurm/down.sh" "$work/slurm" >/dev/null
  # If a test in ends.sh was interrupted, its memory cgroup still exists.
  if [ -n "${cgroup:-}" ] && [ -d "$cgroup" ]; then find "$cgroup" -depth -type d -exec rmdir {} +; fi
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM HUP

# --- shared directory with the files that the job script expects
shared=$work/shared
mkdir -p "$shared/bin"
cp "$1"/{armature,armature-probe,armature-stream,armature-workflow,ferret,mandelbrot,sor} "$shared/bin/"
if [ -n "${2:-}" ]; then
  cp "$2/ferret" "$shared/bin/ferret-mpich"
  # `armature doctor` starts the program armature-probe from its own directory.
  mkdir "$shared/bin-mpich"
  cp "$1/armature" "$2/armature-probe" "$shared/bin-mpich/"
fi
cd "$shared"
tango_pictures pictures queries 60
bin/ferret index pictures -o pictures.db >"$work/index.log" 2>&1 || { cat "$work/index.log"; die "ferret index failed"; }
bin/ferret query queries --db pictures.db -k 10 -o one-rank.tsv --mapping serial >"$work/one-rank.log" 2>&1 ||
  { cat "$work/one-rank.log"; die "ferret query failed on one rank"; }

# --- cluster, with its own ports, so that two tests can run at the same time
export SLURM_PORT=$((20000 + $$ % 1000 * 10))
"$CI_DIR/slurm/up.sh" "$work/slurm" || { tail -n 20 "$work"/slurm/*.log; die "Slurm did not start"; }
export SLURM_CONF=$work/slurm/slurm.conf
# The nodes are emulated hosts that reach each other over the loopback device, which Open MPI does not use by default.
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# UCX detects that the nodes are on one machine, and would use shared memory that is not shared between the namespaces of the nodes. System V shared
# memory works across these namespaces.
export UCX_TLS=self,sysv
hosts="n1 n1 n2 n2 n3 n3 n4 n4 "
if [ -e "$work/slurm/one-name" ]; then
  say "this system does not let the nodes have names of their own"
  name=$(cat "$work/slurm/one-name")
  hosts=$(printf "$name %.0s" 1 2 3 4 5 6 7 8)
  OMPI_MCA_btl=self,tcp
fi
export SHARED=$shared

state_of() { scontrol -o show job "$1" | sed 's/.*JobState=\([A-Z_]*\).*/\1/'; }
exit_code_of() { scontrol -o show job "$1" | sed 's/.* ExitCode=\([0-9]*\):.*/\1/'; }
# ended JOB: waits for the end of a job until the time limit. Prints the final state of the job.
ended() {
  local start state
  start=$(seconds)
  while state=$(state_of "$1"); [[ $state =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING)$ ]]; do
    if [ $(($(seconds) - start)) -ge "$LIMIT" ]; then scancel "$1"; echo "still $state after $LIMIT s"; return; fi
    sleep 0.2
  done
  echo "$state"
}
# submit ARGS...: submits a job and prints its number.
submit() { sbatch --parsable --output="$work/%j.log" "$@"; }
# same_bytes FILE: command for the function check, which compares the file with the output of Ferret on one rank.
same_bytes() { cmp "$shared/one-rank.tsv" "$1"; }
# hosts_in LOG: prints the host of each rank, from the table that armature logs at its start.
hosts_in() { awk '/^ *rank +host/ { table = 1; next } table && /^ *[0-9]+ .*GiB$/ { print $2; next } { table = 0 }' "$1" | sort | tr '\n' ' '; }
# completed JOB: command for the function check, which waits for the end of the job. Fails and prints the job's output if the job has failed.
completed() {
  local state
  state=$(ended "$1")
  [ "$state" = COMPLETED ] || { echo "job $1 is $state"; cat "$work/$1.log"; return 1; }
}

# within SECONDS COMMAND...: repeats the command until it succeeds. If it does not within this time, fails and prints its last output.
within() {
  local end=$(($(seconds) + $1))
  shift
  until "$@" >"$work/within.log" 2>&1; do
    [ "$(seconds)" -lt "$end" ] || { cat "$work/within.log"; return 1; }
    sleep 0.2
  done
}

say "four nodes, eight ranks"
job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run --mpi openmpi /bin/hostname")
check "a job gets its ranks" completed "$job"
check "two ranks run on each of four hosts" equal "$hosts" "$(sort "$work/$job.log" | tr '\n' ' ')"

say "the doctor"
job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature doctor -n 8")
check "no check fails in a job of Open MPI" completed "$job"
cat "$work/$job.log"
check "ranks found each other" grep -q "^ok .* world-size " "$work/$job.log"
check "under srun and under mpirun" equal "mpirun srun " "$(awk '/^(srun|mpirun) / { print $1 }' "$work/$job.log" | sort -u | tr '\n' ' ')"
check "srun has the plug-in of Open MPI" grep -Eq "^(ok|warn) .* pmi-plugin .*srun has pmix" "$work/$job.log"
if [ -d bin-mpich ]; then
  job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin-mpich/armature doctor -n 8 --only world-size,thread-level,ports,shared-directory")
  check "no check fails in a job of MPICH" completed "$job"
  check "its ranks found each other" grep -q "^ok .* world-size " "$work/$job.log"
fi
job=$(submit --nodes=2 --ntasks-per-node=1 --wrap "srun bin/armature doctor --only step")
check "the doctor inside a step fails" equal FAILED "$(ended "$job")"
check "it says what to do instead" grep -q "without srun" "$work/$job.log"

say "Ferret by the job script"
for mapping in serial auto; do
  export OUT=$work/$mapping.tsv MAPPING=$mapping
  job=$(submit "$ROOT/launch/templates/slurm.sh")
  check "the job with mapping $mapping completes" completed "$job"
  check "it was started by srun with PMIx and a ring" grep -q "SLURM_PMIX_FENCE=ring .*srun --mpi=pmix .*-n 8 " "$work/$job.log"
  check "its ranks say that they are eight, on those hosts" equal "$hosts" "$(hosts_in "$work/$job.log")"
  check "its output has the bytes of one rank's" same_bytes "$OUT"
done
query="query queries --db pictures.db -k 10 --mapping auto"
job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run --launcher mpirun bin/ferret $query -o $work/mpirun.tsv")
check "Open MPI's mpirun takes the allocation up" completed "$job"
check "its output has the bytes of one rank's" same_bytes "$work/mpirun.tsv"
if [ -x bin/ferret-mpich ]; then
  job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run -v bin/ferret-mpich $query -o $work/mpich.tsv")
  check "Ferret built for MPICH completes" completed "$job"
  check "it was started by srun with PMI-2" grep -q "srun --mpi=pmi2" "$work/$job.log"
  check "its output has the bytes of one rank's" same_bytes "$work/mpich.tsv"
  # The default plug-in of this Slurm is pmix, whose variables ranks must not inherit.
  job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run --launcher mpirun bin/ferret-mpich $query -o $work/hydra.tsv")
  check "MPICH's mpirun takes the allocation up" completed "$job"
  check "its output has the bytes of one rank's" same_bytes "$work/hydra.tsv"
  job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run --mpi mpich --launcher mpirun /bin/cat")
  check "its ranks have no input" completed "$job"
fi

say "inside a job step"
job=$(submit --nodes=2 --ntasks-per-node=2 --wrap "srun -N 1 -n 1 bin/armature run --launcher srun -n 2 bin/ferret $query -o $work/step.tsv")
check "a step of one task shares its cores with the ranks" completed "$job"
check "its output has the bytes of one rank's" same_bytes "$work/step.tsv"
job=$(submit --nodes=2 --ntasks-per-node=1 --wrap "srun bin/armature run --launcher srun bin/ferret $query -o $work/step.tsv")
check "a start by each task of a step is refused" equal FAILED "$(ended "$job")"
check "it says what to do instead" grep -q "without srun" "$work/$job.log"

say "a job that fails"
export OUT=$work/none.tsv
code=0
bin/ferret query queries --db no-such.db -k 10 -o "$OUT" --mapping serial >/dev/null 2>&1 || code=$?
check "Ferret without its database fails" [ "$code" -ne 0 ]
mv pictures.db elsewhere.db
job=$(submit "$ROOT/launch/templates/slurm.sh")
check "the job ends as failed" equal FAILED "$(ended "$job")"
check "its exit code is Ferret's" equal "$code" "$(exit_code_of "$job")"
check "it says why" grep -qi "pictures.db" "$work/$job.log"
mv elsewhere.db pictures.db

say "a farm whose ranks are killed"
picture="--size 600x400 --iterations 20000"
# shellcheck disable=SC2086  # words
bin/mandelbrot $picture -o one-rank.png >"$work/one-rank.log" 2>&1 || { cat "$work/one-rank.log"; die "mandelbrot failed on one rank"; }
same_picture() { cmp "$shared/one-rank.png" "$1"; }
# farm NAME: submits a farm with a journal. Each rank writes its process number to a file.
farm() {
  mkdir "$work/$1"
  # shellcheck disable=SC2016  # for the ranks' shell
  local rank='echo $$ >'"$work/$1"'/$SLURM_PROCID; exec bin/mandelbrot '"$picture"
  rank+=" --chunking 2 --journal $work/$1.journal --summary -o $work/$1.png"
  ARMATURE_PEER_SECONDS=5 submit --nodes=4 --ntasks-per-node=1 \
    --wrap "bin/armature run --mpi openmpi --recover --restarts 1 /bin/sh -c '$rank'"
}
# under_way NAME: succeeds if the journal of the farm contains some rows of the picture.
under_way() { [ "$(stat -c %s "$work/$1.journal" 2>/dev/null || echo 0)" -gt 50000 ]; }
job=$(farm worker)
check "rows are kept" within 60 under_way worker
kill -KILL "$(cat "$work/worker/2")"
check "the job completes without a worker that was killed" completed "$job"
check "it says so" grep -q "finished without rank 2, which died" "$work/$job.log"
check "it was not started again" equal 0 "$(grep -c "restart 1" "$work/$job.log")"
check "its picture has the bytes of one rank's" same_picture "$work/worker.png"
job=$(farm master)
check "rows are kept" within 60 under_way master
kill -KILL "$(cat "$work/master/0")"
check "the job completes although rank 0 was killed" completed "$job"
check "it was started again" grep -q "restart 1 of 1" "$work/$job.log"
check "it did not compute again what was kept" grep -q "restored from the journal" "$work/$job.log"
check "its picture has the bytes of one rank's" same_picture "$work/master.png"

# The commands of the guide run in the background, during the tests of runs.sh, which wait most of the time.
"$CI_DIR/slurm/newcomer.sh" "$work/newcomer" "$1" >"$work/newcomer.log" 2>&1 &
newcomer=$!
# shellcheck source=ci/slurm/runs.sh
. "$CI_DIR/slurm/runs.sh"

say "the guide to a first job"
newcomer_has_ended() { ! kill -0 "$newcomer" 2>/dev/null; }
check "its commands end" within "$LIMIT" newcomer_has_ended
newcomer=
cat "$work/newcomer.log"
check "the clone has the page" [ -e "$work/newcomer/armature/docs/cluster.md" ]
check "the job is requeued at its time limit" grep -q "^armature: requeue 1 of 9" "$work/newcomer.log"
check "it continues from its journal" grep -q "results were restored from picture.journal" "$work/newcomer.log"
check "it has finished" grep -q "^picture-1 *finished" "$work/newcomer.log"
check "its report is written" [ -s "$work/newcomer/first-job/armature-runs/picture-1/report.html" ]
# shellcheck source=ci/slurm/ends.sh
. "$CI_DIR/slurm/ends.sh"

say "a job that is cancelled"
mkdir "$work/pids"
# shellcheck disable=SC2016  # for the ranks' shell
rank='echo $$ >'"$work/pids"'/$SLURM_PROCID; exec sleep 600'
job=$(submit --nodes=4 --ntasks-per-node=2 --wrap "bin/armature run --mpi openmpi /bin/sh -c '$rank'")
all_run() { [ "$(find "$work/pids" -type f -size +0 | wc -l)" -eq 8 ]; }
none_runs() {
  local file
  for file in "$work"/pids/*; do
    # A process counts as ended if it is a zombie, which its parent has not reaped.
    grep -qs '^State:.[^Z]' "/proc/$(cat "$file")/status" && return 1
  done
  return 0
}
check "its eight ranks run" within 60 all_run
scancel "$job"
check "the job ends as cancelled" equal CANCELLED "$(ended "$job")"
check "no rank is left" within 20 none_runs

"$CI_DIR/slurm/down.sh" "$work/slurm"
no_daemon() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' 2>/dev/null <"$file" | grep -q "^[^ ]*d .*$work/slurm"; then echo "still there: $file"; return 1; fi
  done
}
check "no daemon is left" no_daemon
checks_done slurm
