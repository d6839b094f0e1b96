#!/usr/bin/env bash
# Starts small programs with the launchers of Open MPI 5, MPICH 5 and Intel MPI from PyPI, by `armature run` and `armature doctor`: a farm, a
# pipeline and a loop, more ranks than cores, ranks that are killed, stops, and exit codes.
#
#   ci/launchers/test.sh ARMATURE OPENMPI5_DIR MPICH5_DIR
#
# The arguments are the program armature, and the directories of armature-probe, mandelbrot, matmul-stream and sor, built for Open MPI 5 and
# for MPICH 5. The programs for MPICH run under Intel MPI as well, because the two libraries have the same binary interface.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=ci/checks.sh
. "$CI_DIR/checks.sh"

usage="usage: ci/launchers/test.sh ARMATURE OPENMPI5_DIR MPICH5_DIR"
for program in "${1:?$usage}" {"${2:?$usage}","${3:?$usage}"}/{armature-probe,mandelbrot,matmul-stream,sor}; do
  [ -x "$program" ] || die "$program is missing; build it first"
done
work=$(mktemp -d)
leave() {
  local file job
  # Jobs that still run are ended: a job has ended if the file with its exit code exists.
  for file in "$work"/*/pids/*/armature; do
    job=${file%/armature}
    if [ -s "$file" ] && [ ! -s "${job/\/pids\///}.code" ]; then kill "$(cat "$file")" 2>/dev/null || true; fi
  done
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM HUP
for kind in openmpi mpich; do
  mkdir "$work/$kind"
  cp "$1" "$work/$kind/armature"
  # `armature doctor` starts the program armature-probe from its own directory.
  [ $kind = openmpi ] && from=$2 || from=$3
  cp "$from"/{armature-probe,mandelbrot,matmul-stream,sor} "$work/$kind/"
done

# on COMMAND...: runs a command in the environment of the MPI that is tested ($mpi), for at most a minute.
on() { "$CI_DIR/mpi/with.sh" "$mpi" timeout --kill-after=20 60 "$@"; }
launch() { on armature run "$@"; }
# exits CODE COMMAND...: command for the function check, which succeeds if COMMAND exits with CODE.
exits() {
  local wanted=$1 code=0
  shift
  "$@" || code=$?
  equal "$wanted" "$code"
}
# says TEXT CODE COMMAND...: command for the function check, which succeeds if COMMAND exits with CODE and prints TEXT.
says() {
  local text=$1 code=$2
  shift 2
  exits "$code" "$@" >says.log 2>&1 || { cat says.log; return 1; }
  grep -qF -- "$text" says.log || { echo "\`$text\` is missing:"; cat says.log; return 1; }
}
# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
  local end=$(($(seconds) + $1))
  shift
  until "$@"; do
    [ "$(seconds)" -lt "$end" ] || return 1
    sleep 0.1
  done
}
# line OPTIONS...: prints the command line of a launcher, without its directory, for a program `true`.
line() { on env -u ARMATURE_CI_RUN -u RUST_LOG -u RUST_BACKTRACE armature run --dry-run --mpi "$family" "$@" true | sed 's, [^ ]*/bin/true$, true,; s,[^ ]*/mpirun,mpirun,'; }
# is_part CORES ALL: command for the function check, which succeeds if the list CORES is not empty and differs from the list ALL of all cores.
is_part() { if [ -z "$1" ] || [ "$1" = "$2" ]; then echo "bound to: $1"; return 1; fi; }
# sorted COMMAND...: prints the output of the command with sorted lines, as one line.
sorted() { "$@" | sort | tr '\n' ' '; }

# Program that computes a picture as a farm. It runs for some seconds, so that ranks can be killed meanwhile.
picture=(mandelbrot --size 300x200 --chunking 2 --summary)
mpi=openmpi5
on "$work/openmpi/${picture[0]}" "${picture[@]:1}" --iterations 6000 -o "$work/one-rank.png" >"$work/one-rank.log" 2>&1 ||
  { cat "$work/one-rank.log"; die "mandelbrot failed on one rank"; }

# farm NAME OPTIONS...: starts mandelbrot, which computes a picture, as a job of three ranks in the background. `armature run` and each rank write
# their process numbers to files. The variable `iterations` may be set to make the job longer.
farm() {
  local name=$1
  shift
  mkdir -p "pids/$name"
  # shellcheck disable=SC2016  # for the ranks' shell
  local rank='echo $$ >'"pids/$name"'/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec '"${picture[*]} --iterations ${iterations:-6000} --journal $name.journal -o $name.png"
  # shellcheck disable=SC2016  # for the shell that becomes armature
  local start=(on sh -c 'echo $$ >"$0"; exec armature run "$@"' "pids/$name/armature" --mpi "$family" -n 3 "$@" sh -c "$rank") code=0
  { "${start[@]}" >"$name.log" 2>&1 || code=$?; echo "$code" >"$name.code"; } &
}
# under_way NAME: succeeds if the journal of the farm contains some rows of the picture.
under_way() { [ "$(stat -c %s "$1.journal" 2>/dev/null || echo 0)" -gt 3000 ]; }
# ends CODE NAME: command for the function check, which waits at most a minute for the end of the farm. The exit code is read from a file, because
# check runs the command in a process that is not the parent of the job.
ends() {
  within 60 [ -s "$2.code" ] || { echo "it runs after 60 s"; cat "$2.log"; return 1; }
  equal "$1" "$(cat "$2.code")" || { cat "$2.log"; return 1; }
}
has_picture() { cmp "$work/one-rank.png" "$1.png"; }
log_says() { grep -qF -- "$2" "$1.log" || { cat "$1.log"; return 1; }; }

# examine MPI FAMILY NAME LIBRARY: runs all checks with one MPI. NAME is the text for this MPI in the output of `armature --version`, and LIBRARY the
# text for its library in the output of `sor --version`.
examine() {
  mpi=$1 family=$2
  local name=$3 library=$4
  export PATH=$work/$family:$path
  mkdir "$work/$mpi"
  cd "$work/$mpi"
  say "$name"
  check "$mpi: armature finds the launcher" says "$name" 0 on armature --version
  check "$mpi: a program loads the library" says "$library" 0 on sor --version
  "on_$mpi"

  local all cores many rank bound
  all=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  cores=$(nproc)
  many=$((cores + 2))
  # shellcheck disable=SC2016  # for the ranks' shell
  rank='sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status'
  check "$mpi: $many ranks share $cores cores, and none is bound" \
    equal "$(for ((i = 0; i < many; i++)); do printf '%s ' "$all"; done)" "$(sorted launch --mpi "$family" -n $many sh -c "$rank")"
  if [ "$cores" -gt 1 ]; then
    bound=$(launch --mpi "$family" -n 1 --bind core sh -c "$rank")
    check "$mpi: a rank is bound to a core" is_part "$bound" "$all"
  fi
  check "$mpi: two ranks are not bound with --bind none" \
    equal "$all $all " "$(sorted launch --mpi "$family" -n 2 --bind none sh -c "$rank")"
  # The test does not check that rank 0 reaches the end of standard input, because Open MPI 5.0 does not pass on the end.
  check "$mpi: rank 0 reads standard input" equal "words" "$(echo words | launch --mpi "$family" -n 1 --stdin head -n 1)"
  check "$mpi: there is no standard input without an option" equal "" "$(echo words | launch --mpi "$family" -n 1 cat)"
  printf '%s slots=2\n' "$(hostname)" >hosts
  check "$mpi: a hostfile names this host" equal "$(hostname) $(hostname) " "$(sorted launch --mpi "$family" --hostfile hosts hostname)"

  check "$mpi: a farm" launch -n 3 "${picture[@]}" --iterations 6000 -o farm.png
  check "$mpi: its picture has the bytes of one rank's" has_picture farm
  check "$mpi: a pipeline" launch -n 3 matmul-stream --size 60 --block 16 --verify
  check "$mpi: a loop" launch -n 4 sor --size 60 --sweeps 20 --verify

  check "$mpi: the exit code is that of the program" exits 7 launch --mpi "$family" -n 2 sh -c 'exit 7'
  check "$mpi: a wrong option of the program is an error" exits 2 launch -n 2 sor --sweeps none
  check "$mpi: the job status of a failed program is an error" exits 1 launch --job-status status -n 2 "${picture[@]}" -o no/such.png
  check "$mpi: a time limit" exits 124 launch --mpi "$family" -n 2 --timeout 1s sleep 60

  farm again --restarts 1 --no-run-directory
  check "$mpi: rows are kept" within 30 under_way again
  kill -KILL "$(cat pids/again/1)"
  check "$mpi: a job with a killed rank is started again" ends 0 again
  check "$mpi: it says so" log_says again "restart 1 of 1"
  check "$mpi: it did not compute again what was kept" log_says again "restored from the journal"
  check "$mpi: its picture has the bytes of one rank's" has_picture again

  iterations=99999 farm stop --run stop --label
  check "$mpi: rows are kept" within 30 under_way stop
  kill -USR1 "$(cat pids/stop/armature)"
  check "$mpi: a job stops at SIGUSR1 of the batch system" ends 85 stop
  check "$mpi: it says so" log_says stop "the same command continues"
  check "$mpi: the labelled lines of rank 0 are found" says "the same command continues" 0 on armature logs stop --rank 0
  iterations=99999 farm told --run told
  check "$mpi: rows are kept" within 30 under_way told
  check "$mpi: a job is asked to stop" on armature stop told
  check "$mpi: it stops" ends 85 told
  farm signal
  check "$mpi: rows are kept" within 30 under_way signal
  kill -USR2 "$(cat pids/signal/1)"
  check "$mpi: a job stops when a rank gets SIGUSR2" ends 85 signal
  rm signal.code
  farm signal
  check "$mpi: it continues" ends 0 signal
  check "$mpi: its picture has the bytes of one rank's" has_picture signal

  check "$mpi: no check of the doctor fails" on armature doctor -n 2 mandelbrot
  on armature doctor -n 2 mandelbrot >doctor.log || true
  cat doctor.log
  check "$mpi: its ranks found each other" grep -q "^ok .* world-size .* 2 ranks" doctor.log
  check "$mpi: none shares a core" grep -q "^ok .* same-core " doctor.log
  check "$mpi: they were started by mpirun" grep -q "^mpirun .* 2 " doctor.log
}

on_openmpi5() {
  local root=""
  [ "$(id -u)" != 0 ] || root="--allow-run-as-root "
  check "$mpi: the line for more ranks than slots, with recovery" \
    equal "ARMATURE_RECOVERY=1 mpirun $root-n 9999 --map-by :OVERSUBSCRIBE --bind-to none --enable-recovery --stdin none --output rank -x ARMATURE_JOB_STATUS -x ARMATURE_RECOVERY true" \
    "$(line -n 9999 --recover --label)"
  farm worker --recover
  check "$mpi: rows are kept" within 30 under_way worker
  kill -KILL "$(cat pids/worker/2)"
  check "$mpi: a farm completes without a worker that was killed" ends 0 worker
  check "$mpi: it says so" log_says worker "rank 2 is lost, the job continues without it"
  check "$mpi: its picture has the bytes of one rank's" has_picture worker
  # Settings for Open MPI 4 that people have in their environments.
  check "$mpi: settings for Open MPI 4 do no harm" env OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl=self,vader OMPI_MCA_orte_tmpdir_base=/tmp \
    OMPI_MCA_rmaps_base_oversubscribe=1 \
    "$CI_DIR/mpi/with.sh" "$mpi" armature run -n 2 sor --size 60 --sweeps 20 --verify
}

# Words by which the launcher of MPICH or Intel MPI starts a program without input.
# shellcheck disable=SC2016  # for the ranks' shell
without_input='/bin/sh -c '"'"'exec "$0" "$@" </dev/null'"'"

on_mpich5() {
  check "$mpi: the line for more ranks than slots" equal "mpirun -n 9999 -bind-to none -prepend-rank $without_input true" "$(line -n 9999 --label)"
  check "$mpi: recovery is refused" says "--recover needs Open MPI" 2 launch -n 2 --recover sor
}

on_intel() {
  check "$mpi: the line for more ranks than slots" equal "I_MPI_PIN=off mpirun -n 9999 -prepend-rank $without_input true" "$(line -n 9999 --label)"
  check "$mpi: recovery is refused" says "--recover needs Open MPI" 2 launch -n 2 --recover sor
}

path=$PATH
examine openmpi5 openmpi "Open MPI 5." "linked to Open MPI v5."
examine mpich5 mpich "MPICH 5." "linked to MPICH Version: 5."
examine intel mpich "Intel MPI 2021." "linked to Intel(R) MPI"
cd "$ROOT"
checks_done launchers
