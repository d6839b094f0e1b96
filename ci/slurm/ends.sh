# shellcheck shell=bash disable=SC2154  # variables of test.sh
# Tests of runs that end early on the real Slurm of test.sh, which sources this file after runs.sh: by preemption, by signals, by the loss of
# nodes, and for lack of memory. Each run continues later. Four programs are run: a farm with a journal, a loop with checkpoints, a workflow of
# commands, and a pipeline with snapshots.

say "runs that end before they have finished"
mkdir "$work/ends"
cd "$work/ends" || exit 1
tasks=24
for ((i = 1; i <= tasks; i++)); do
  printf '[[task]]\nid = "t%s"\ncommand = ["sh", "-c", "echo %s >>begun.txt; sleep 0.5; echo %s >>ended.txt"]\n' $i $i $i
done >flow.toml
# The script `ranked NAME PROGRAM...` runs the program as one rank, and writes its process number to a file in the directory pids.
cat >ranked <<'EOS'
#!/bin/sh
mkdir -p "$PWD/pids"
echo $$ >"$PWD/pids/$1.$SLURM_PROCID.$SLURMD_NODENAME"
shift
exec "$@"
EOS
chmod +x ranked
export ARMATURE_PEER_SECONDS=5
# shellcheck disable=SC2086  # words
submit_farm() { armature submit --mpi openmpi --name "$1" "${@:2}" -- mandelbrot $picture --chunking 2 --journal "$1.journal" --summary -o "$1.png"; }
submit_loop() { armature submit --mpi openmpi --name "$1" "${@:2}" -- sor --size 700 --sweeps 1500 --checkpoint "$1.ck" --checkpoint-every 0.5 --verify; }
submit_flow() { armature submit --mpi openmpi --name "$1" "${@:2}" -- armature-workflow flow.toml; }
# Number of times that a rank of the pipeline `stream-kill` is killed. The pipeline processes up to a thousand items between two kills, and must not
# end before the last kill.
kills=${ARMATURE_TEST_KILLS:-3}
items_of() { if [ "$1" = stream-kill ]; then echo $((3000 + 1200 * (kills - 3))); else echo 3000; fi; }
# submit_stream NAME OPTION...: submits a pipeline that appends a line to NAME.data/log for each of its starts and each item, and writes its
# results to NAME.data/out.
submit_stream() { mkdir "$1.data" && armature submit --mpi openmpi --name "$1" "${@:2}" -- armature-stream "$1.data" "$(items_of "$1")" 5000; }
# field RUN ATTEMPT NAME: prints the field NAME of the attempt's why.json, the record of its end, without quotes.
field() { sed -n "s/.*\"$3\": \"\\?\\([^\",]*\\).*/\\1/p" "armature-runs/$1/attempts/$2/why.json"; }
# has_kept NAME: succeeds if the run has written some of its results to its journal, checkpoint, output or snapshot.
has_kept() {
  case $1 in
    farm*) [ "$(stat -c %s "$1.journal" 2>/dev/null || echo 0)" -gt 20000 ] ;;
    loop*) [ -e "$1.ck" ] && [ "$(find "$1.ck" -type f | wc -l)" -gt 0 ] ;;
    flow*) [ -s ended.txt ] ;;
    stream*) [ -e "$1.data/kept/manifest" ] ;;
  esac
}
# continued NAME: succeeds if the second attempt of the run resumed from the results that the first one had kept, and the output is right.
continued() {
  local log=armature-runs/$1-1/log before
  before=$(field "$1-1" 1 "done")
  armature logs "$1" | grep "^=== attempt" | wc -l | grep -qx 2 || { echo "the log does not show two attempts"; cat "$log"; return 1; }
  case $1 in
    farm*) grep -q "$before results were restored" "$log" && same_bytes_as one-rank.png "$1.png" ;;
    loop*) grep -q "resumes after $before passes" "$log" && grep -q "the same bits as the serial loop" "$log" ;;
    # The two commands that were running at the end of the first attempt may run again, even if they had ended when their rank was killed.
    flow*) [ "$(sort -u ended.txt | wc -l)" = $tasks ] && [ "$(wc -l <begun.txt)" -le $((tasks + 2)) ] ;;
    stream*) stream_is_right "$1" ;;
  esac || { cat "$log"; return 1; }
}
# stream_is_right NAME: succeeds if the output of the pipeline has each item once, with the sum of all items up to it, and if no start of the
# pipeline processed an item that its snapshot contains.
stream_is_right() {
  awk -v items="$(items_of "$1")" 'BEGIN { sum = 0 } $1 != NR - 1 { exit 1 } { sum += $1 } $2 != sum { exit 1 } END { exit NR != items }' "$1.data/out" &&
    awk '$1 == "first" { first = $2 } $1 == "item" && $2 + 0 < first + 0 { exit 1 }' "$1.data/log"
}
same_bytes_as() { cmp "$shared/$1" "$2"; }
# ends_as NAME ATTEMPT REASON CODE: command for the function check, which fails unless the attempt ended with this reason and exit code.
ends_as() { equal "$3 $4" "$(field "$1-1" "$2" reason) $(field "$1-1" "$2" code)"; }

say "preemption by a job of another partition"
check "a farm is submitted" submit_farm farm-grace -p grace -N 1 -n 2
told() { submit_farm told -p grace -N 1 -n 2 --option --begin=now+1hour 2>&1 | grep "may be preempted, and then have 20 s to stop: 15 s"; }
check "submit says how long a stop may take" told
check "that job is removed" armature cancel told
check "a loop is submitted" submit_loop loop-grace -p grace -N 1 -n 2
check "a workflow is submitted" submit_flow flow-grace -p grace -N 1 -n 2
check "a farm is submitted to a partition without grace time" submit_farm farm-abrupt -p abrupt -N 1 -n 1
check "a loop that Slurm must not requeue, too" submit_loop loop-abrupt -p abrupt -N 1 -n 1 --requeue 1 --option --no-requeue
runs=(farm-grace loop-grace flow-grace farm-abrupt loop-abrupt)
for run in "${runs[@]}"; do check "$run is under way" within 60 has_kept "$run"; done
job=$(sbatch --parsable --output="$work/%j.log" -p high -N 4 --exclusive --wrap "sleep 1")
check "a job of higher priority completes" completed "$job"
for run in "${runs[@]}"; do
  check "$run ends for the other job, at a checkpoint" ends_as "$run" 1 preempted 85
  check "$run finishes after a requeue" within 120 status_is 0 "$run-1"
  check "$run computes nothing twice" continued "$run"
done
check "the loop continued as another job" grep -q '"successor": "' armature-runs/loop-abrupt-1/attempts/1/why.json

# processes_of NODE: prints the numbers of all processes of a node. They are in the namespace of the node's daemon slurmd.
processes_of() {
  local space file
  space=$(readlink "/proc/$(cat "$work/slurm/slurmd.$1.pid")/ns/uts")
  for file in /proc/[0-9]*/ns/uts; do
    if [ "$(readlink "$file" 2>/dev/null)" = "$space" ]; then
      file=${file#/proc/}
      echo "${file%%/*}"
    fi
  done
}
# lose NODE...: kills all processes of the nodes, and reports the loss to Slurm, which would detect it only after a time limit.
lose() {
  local node processes=()
  # The processes are stopped before they are killed, because a lost node closes no connections. If a connection is reset during a send, Open
  # MPI 4.1.4 may wait forever in MPI_Test.
  for node in "$@"; do
    mapfile -t -O ${#processes[@]} processes < <(processes_of "$node")
    kill -STOP "${processes[@]}" 2>/dev/null
  done
  sleep 1
  kill -KILL "${processes[@]}" 2>/dev/null
  for node in "$@"; do scontrol update "NodeName=$node" State=DOWN Reason=died; done
}
if [ ! -e "$work/slurm/one-name" ]; then
  say "two nodes are lost"
  rm -rf begun.txt ended.txt flow.toml.*
  # Nodes n2 and n3 will be lost. The farm and the loop have one rank on n3. The workflow and its batch script run on n2.
  check "a farm is submitted" submit_farm farm-lost --recover -N 3 --ranks-per-node 1 --option --nodelist=n1,n3,n4
  check "a loop is submitted" submit_loop loop-lost --recover --restarts 1 -N 2 --ranks-per-node 1 --option --nodelist=n1,n3
  check "a workflow is submitted" submit_flow flow-lost -N 1 -n 2
  for run in farm-lost loop-lost flow-lost; do check "$run is under way" within 60 has_kept "$run"; done
  lose n2 n3
  check "the farm finishes on the other nodes" within 60 status_is 0 farm-lost-1
  check "its picture has the bytes of one rank's" same_bytes_as one-rank.png farm-lost.png
  check "it says which rank it lost" grep -q "^lost ranks .[12].; " armature-runs/farm-lost-1/log
  check "the loop finishes" within 60 status_is 0 loop-lost-1
  check "it was restarted on what was left of its allocation" ends_as loop-lost 1 "lost node" 1
  check "the workflow finishes on another node" within 60 status_is 0 flow-lost-1
  check "its first attempt ended with its node" ends_as flow-lost 1 "lost node" 1
  check "it computes nothing twice" continued flow-lost
  "$CI_DIR/slurm/up.sh" "$work/slurm"
fi

# a_rank_of NAME: prints the process number of one rank of the pipeline.
a_rank_of() {
  local file
  for file in /proc/[0-9]*/exe; do
    if [[ $(readlink "$file" 2>/dev/null) == */armature-stream ]] && tr '\0' ' ' 2>/dev/null <"${file%exe}cmdline" | grep -q " $1.data "; then
      file=${file#/proc/}
      echo "${file%%/*}"
      return
    fi
  done
}
has_rank() { [ -n "$(a_rank_of "$1")" ]; }
# has_started_stream NAME N: succeeds if the pipeline was started at least N times.
has_started_stream() { [ "$(grep -c first "$1.data/log")" -ge "$2" ]; }

say "signals"
rm -rf begun.txt ended.txt flow.toml.*
check "a farm is submitted" submit_farm farm-term -N 1 -n 2
check "a loop is submitted" submit_loop loop-requeue -N 1 -n 2
check "a workflow is submitted" submit_flow flow-cancel -N 1 -n 2
check "a job array is submitted" armature submit --mpi openmpi --name array -N 1 -n 1 --array 1-4%2 "$work/user/steps" 5
for run in farm-term loop-requeue flow-cancel; do check "$run is under way" within 60 has_kept "$run"; done
scancel --signal=TERM "$(job_of farm-term-1)" || true
scancel "$(job_of flow-cancel-1)" || true
scontrol requeue "$(job_of loop-requeue-1)" || true
check "a pipeline is submitted" submit_stream stream-requeue -N 1 -n 2
check "another one, whose ranks will be killed, is submitted" submit_stream stream-kill -N 1 -n 2 --restarts $((3 * kills))
for run in stream-requeue stream-kill; do check "$run is under way" within 60 has_kept "$run"; done
scontrol requeue "$(job_of stream-requeue-1)" || true
for ((i = 2; i <= kills + 1; i++)); do
  # The check waits, because the pipeline has no rank between two starts.
  check "the pipeline has a rank" within 60 has_rank stream-kill
  kill -KILL "$(a_rank_of stream-kill)"
  check "the pipeline starts again after the death of a rank" within 60 has_started_stream stream-kill $i
  sleep 1
done
check "the farm stops after scancel --signal=TERM" within 60 status_is 85 farm-term-1
check "the reason is the signal" ends_as farm-term 1 stopped 85
# says_error RUN: prints the lines in the output of the run that read like errors of the launcher.
says_error() { armature logs "$1" | grep -iE "error:.*exit code|non-zero|terminated"; }
check "its output has no error of the launcher" equal "" "$(says_error farm-term-1)"
check "the same script continues it" sbatch armature-runs/farm-term-1/job.sh
check "the pipeline whose ranks were killed finishes" within 120 status_is 0 stream-kill-1
check "its output is right, and nothing was computed twice" stream_is_right stream-kill
check "the other pipeline finishes after scontrol requeue" within 120 status_is 0 stream-requeue-1
check "its first attempt ended at a snapshot" ends_as stream-requeue 1 stopped 85
check "it computes nothing twice" continued stream-requeue
check "the loop finishes after scontrol requeue" within 120 status_is 0 loop-requeue-1
check "its first attempt ended at a checkpoint" ends_as loop-requeue 1 stopped 85
check "it computes nothing twice" continued loop-requeue
check "the workflow stops after scancel" within 60 status_is 85 flow-cancel-1
check "the reason is the cancellation" ends_as flow-cancel 1 cancelled 85
check "all elements of the array finish" within 60 status_is 0 array-1
check "each has a log of its own" equal 4 "$(cat armature-runs/array-1.[1-4]-1/log | grep -c "has finished")"
check "the farm finishes" within 60 status_is 0 farm-term-1
check "it computes nothing twice" continued farm-term

say "no memory"
# `armature run` reads the memory cgroup of its job. This Slurm creates none, so the job script creates it, with a limit of 250 MiB.
cgroup=/sys/fs/cgroup/memory/armature-$$ limit=memory.limit_in_bytes
[ -d /sys/fs/cgroup/memory ] || { cgroup=/sys/fs/cgroup/armature-$$ limit=memory.max; }
if mkdir "$cgroup" 2>/dev/null && [ -e "$cgroup/$limit" ]; then
  cat >memory.sh <<EOS
#!/bin/bash
mkdir "$cgroup/job_\$SLURM_JOB_ID" && echo 250M >"$cgroup/job_\$SLURM_JOB_ID/$limit" && echo \$\$ >"$cgroup/job_\$SLURM_JOB_ID/cgroup.procs" || exit 1
exec armature run --run memory --restarts 1 --launcher mpirun -n 2 sor --size 8000 --sweeps 9
EOS
  job=$(submit -N 1 -n 2 memory.sh)
  check "a job that needs too much memory fails" equal FAILED "$(ended "$job")"
  check "the reason is its memory" equal "out of memory" "$(reason memory-1 1)"
  check "it is not started again" equal 1 "$(find armature-runs/memory-1/attempts -mindepth 1 -maxdepth 1 | wc -l)"
  check "it says how much memory it had" grep -q "memory cgroup is limited to 250.0 MiB" "$work/$job.log"
else
  say "no memory cgroup can be made here"
fi
find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
cd "$shared" || exit 1
