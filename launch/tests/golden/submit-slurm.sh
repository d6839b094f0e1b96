#!/bin/bash
# Job script of the run day-1, written by armature submit.
# To submit it again, in the same directory: sbatch armature-runs/day-1/job.sh
#SBATCH --job-name=day-1
#SBATCH --nodes=4
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=3
#SBATCH --mem-per-cpu=134M
#SBATCH --time=02:00:00
#SBATCH --partition=long
#SBATCH --account=p12
#SBATCH --dependency=afterok:48211
# Output of all attempts. Without append, a requeue would empty the file.
#SBATCH --output=armature-runs/day-1/log
#SBATCH --open-mode=append
# Slurm starts the job again after a preemption or the loss of a node.
#SBATCH --requeue
# A checkpoint is written this many seconds before the time limit.
#SBATCH --signal=B:USR1@120
# The job continues on the other nodes when one fails.
#SBATCH --no-kill
#SBATCH --qos=long

module load openmpi/4.1 || exit 1
export A='two
lines'
exec '/opt/my tools/armature' run --run day-1 -n 8 --requeue 3 --restarts 1 --mpi openmpi --recover --label -- sor 'it'\''s' '$(id)'
