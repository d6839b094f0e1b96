# shellcheck shell=bash disable=SC2154  # variables of test.sh
# Tests of run directories on the real Slurm of test.sh, which sources this file: submission, stop, cancellation, time limit and requeue.

say "runs with run directories"
mkdir "$work/user"
cd "$work/user" || exit 1
export PATH=$shared/bin:$PATH
# Program `steps N`, which does not use armature and can be stopped: each rank takes N steps of 0.1 s, and ends when the file `stop` exists.
cat >steps <<'EOS'
#!/bin/sh
for step in $(seq "$1"); do
  if [ -e "$ARMATURE_RUN/stop" ]; then echo "rank $SLURM_PROCID stops"; exit 85; fi
  sleep 0.1
done
echo "rank $SLURM_PROCID has finished"
EOS
chmod +x steps
# reason RUN ATTEMPT: prints the recorded reason for the end of the attempt.
reason() { sed -n 's/.*"reason": "\(.*\)",/\1/p' "armature-runs/$1/attempts/$2/why.json"; }
# status_is CODE RUN: command for the functions check and within, which succeeds if `armature status` exits with CODE.
status_is() {
  local code=0
  armature status "$2" >"$work/status.txt" 2>&1 || code=$?
  [ "$code" = "$1" ] || { cat "$work/status.txt" "armature-runs/$2/log"; return 1; }
}
job_of() { sed -n 's/.*"job": "\(.*\)".*/\1/p' "armature-runs/$1/run.json"; }
has_started() { [ -e "armature-runs/$1/attempts/${2:-1}/start.json" ]; }
submitted() { armature submit --mpi openmpi -N 2 -n 4 "$@"; }

check "a job for a partition that does not exist is refused" equal 3 "$(submitted -p nowhere ./steps 1 >/dev/null 2>&1; echo $?)"
check "nothing is written for it" [ ! -e armature-runs ]
check "a job is submitted" submitted --name plain --label ./steps 5
check "it finishes" within 60 status_is 0 plain-1
check "its log has the lines of all ranks" equal 4 "$(grep -c "has finished" armature-runs/plain-1/log)"
check "the lines of a rank are found" equal "rank 2 has finished" "$(armature logs plain --rank 2)"
check "its number names it" equal finished "$(armature status --json "$(job_of plain-1)" | sed 's/.*"state":"\([a-z]*\)".*/\1/')"

check "a job is submitted" submitted --name stop ./steps 3000
check "it starts" within 60 has_started stop-1
check "it shows as running" within 60 status_is 3 stop-1
check "it is asked to stop" armature stop stop
check "it stops with exit code 85" within 60 status_is 85 stop-1
check "the reason is the request" equal stopped "$(reason stop-1 1)"

check "a job is submitted" submitted --name cancel ./steps 3000
check "it starts" within 60 has_started cancel-1
sleep 1
check "it is cancelled by its batch system" scancel "$(job_of cancel-1)"
check "it shows as failed" within 60 status_is 1 cancel-1
check "the reason is the cancellation" equal cancelled "$(reason cancel-1 1)"
check "a job that waits is submitted" submitted --name later --option --begin=now+1hour ./steps 1
check "it shows as waiting" status_is 3 later-1
check "it is removed from the queue" armature cancel later
check "it shows as failed" within 60 status_is 1 later-1

check "a job with one minute is submitted" submitted --name limit --time 1m --warn 20s --requeue 1 ./steps 900
check "it starts" within 60 has_started limit-1
check "it stops for its time limit" within 90 [ -e armature-runs/limit-1/attempts/1/why.json ]
check "the reason is the time limit" equal "time limit" "$(reason limit-1 1)"
is_requeued() { [ "$(state_of "$(job_of limit-1)")" = PENDING ]; }
check "it is in the queue again" within 60 is_requeued
check "it shows as waiting" status_is 3 limit-1
check "it starts again" within 60 has_started limit-1 2
check "the second attempt stops as well" within 150 [ -e armature-runs/limit-1/attempts/2/why.json ]
check "it is not requeued again" within 60 status_is 85 limit-1
check "its log has both attempts" equal 2 "$(grep -c "^=== attempt" armature-runs/limit-1/log)"
check "the second attempt says why" grep -q "is not requeued again" armature-runs/limit-1/log
cd "$shared" || exit 1
