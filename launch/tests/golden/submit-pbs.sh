#!/bin/bash
# Job script of the run day-1, written by armature submit.
# It has not been tried on the batch system itself. To submit it: qsub FILE
#PBS -N day-1
#PBS -l select=4:ncpus=6:mpiprocs=2:mem=800mb
#PBS -l walltime=02:00:00
#PBS -q long
#PBS -A p12
#PBS -W depend=afterok:48211
#PBS -j oe
# PBS may start the job again after the loss of a node.
#PBS -r y
#PBS --qos=long

cd "$PBS_O_WORKDIR" || exit 1
module load openmpi/4.1 || exit 1
export A='two
lines'
exec '/opt/my tools/armature' run --run day-1 -n 8 --restarts 1 --mpi openmpi --recover --label -- sor 'it'\''s' '$(id)'
