"""Search of a tree with mpi4py.futures: rank 0 submits the tasks that results create, and the other ranks run them.

mpirun -n 2 python tree.py ROOTS DEPTH STEPS SECONDS_PER_STEP NODES prints `result seconds S`. The tree is
that of `bench/src/farm/tree.rs`. A task keeps its core busy for as long as the same task takes there.
"""

import queue
import sys
import time

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor

MASK = (1 << 64) - 1


def mix(number):
    number = (number + 0x9E3779B97F4A7C15) & MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & MASK
    return number ^ number >> 31


def search(number, depth, steps, seconds_per_step):
    end = time.perf_counter() + (number >> 32) % (2 * steps) * seconds_per_step
    below = [(mix(number ^ child), depth - 1) for child in range(number % 5 if depth else 0)]
    while time.perf_counter() < end:
        pass
    return below


with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
    if executor is not None:
        roots, depth, steps, nodes = (int(sys.argv[at]) for at in (1, 2, 3, 5))
        seconds_per_step = float(sys.argv[4])
        executor.submit(mix, 1).result()
        # `wait` would examine all unfinished tasks whenever one ends.
        ended = queue.SimpleQueue()

        def submit(number, depth):
            executor.submit(search, number, depth, steps, seconds_per_step).add_done_callback(ended.put)

        start = time.perf_counter()
        for root in range(1, roots + 1):
            submit(mix(root), depth)
        done, left = 0, roots
        while left > 0:
            below = ended.get().result()
            for task in below:
                submit(*task)
            done, left = done + 1, left - 1 + len(below)
        seconds = time.perf_counter() - start
        assert done == nodes, f"{done} of {nodes} nodes"
        print("result seconds", seconds)
