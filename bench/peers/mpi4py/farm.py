"""Farm of tiny tasks with mpi4py.futures: rank 0 dispatches the tasks, and the other ranks compute.

mpirun -n 2 python farm.py SIZE CHUNK TASKS prints `result tasks_per_s R tasks N`.
"""

import sys
import time

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor

MASK = (1 << 64) - 1


def work(word):
    return (word * 0xBF58476D1CE4E5B9 + 1) & MASK


def run(executor, chunk, tasks):
    return sum(executor.map(work, range(tasks), chunksize=chunk)) & MASK


with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
    if executor is not None:
        chunk, tasks = (int(word) for word in sys.argv[1:])
        run(executor, chunk, min(tasks, 4 * chunk))
        start = time.perf_counter()
        got = run(executor, chunk, tasks)
        seconds = time.perf_counter() - start
        assert got == sum(map(work, range(tasks))) & MASK
        print("result tasks_per_s", tasks / seconds, "tasks", tasks)
