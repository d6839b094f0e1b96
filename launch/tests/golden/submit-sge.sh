#!/bin/bash
# Job script of the run day-1, written by armature submit.
# It has not been tried on the batch system itself. To submit it: qsub FILE
#$ -N day-1
# Start in the directory of the submission.
#$ -cwd
# The parallel environment has another name at many sites: qconf -spl lists them.
#$ -pe mpi 24
#$ -l h_vmem=134M
#$ -l h_rt=02:00:00
#$ -q long
#$ -P p12
#$ -hold_jid 48211
#$ -j y
# SGE may start the job again after the loss of a node.
#$ -r y
#$ --qos=long

module load openmpi/4.1 || exit 1
export A='two
lines'
exec '/opt/my tools/armature' run --run day-1 -n 8 --restarts 1 --mpi openmpi --recover --label -- sor 'it'\''s' '$(id)'
