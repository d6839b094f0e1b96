"""Arrays and their sums with Dask and little memory: `sums.py ARRAYS BYTES LIMIT own|all` on two workers of LIMIT bytes.

Each of ARRAYS tasks creates an array, one task for each array adds up its numbers, and a last task adds up these sums. Dask limits the whole
memory of a worker's process. With `own`, the limit is raised by the memory of this process, which has loaded the same modules. Prints
`result ended 0|1 seconds S peak BYTES spilled BYTES`: the largest growth of a worker's process, and the bytes written to disk.
"""

import sys
import threading
import time

import numpy
import psutil
from distributed import Client, LocalCluster


def make(number, words):
    return numpy.full(words, number, dtype=numpy.uint64)


def add_up(array):
    return int(array.sum())


def held(field, process="self"):
    with open(f"/proc/{process}/status") as lines:
        for line in lines:
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    return 0


def written(dask_worker):
    metrics = getattr(dask_worker.data, "cumulative_metrics", {})
    return metrics.get(("disk-write", "bytes"), 0)


class Watch(threading.Thread):
    """Records the peak memory of all worker processes, including those that are killed."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0
        self.ends = threading.Event()

    def run(self):
        while not self.ends.wait(0.02):
            for child in psutil.Process().children(recursive=True):
                try:
                    self.most = max(self.most, held("VmHWM", child.pid))
                except OSError:
                    pass


def run(client, arrays, words):
    made = [client.submit(make, number, words, pure=False) for number in range(arrays)]
    sums = [client.submit(add_up, array, pure=False) for array in made]
    total = client.submit(sum, sums, pure=False)
    del made, sums
    got, expected = total.result(), sum(number * words for number in range(arrays))
    assert got == expected, (got, expected)


if __name__ == "__main__":
    arrays, size, limit = (int(word) for word in sys.argv[1:4])
    if sys.argv[4] == "own":
        limit += held("VmRSS")
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=None
    ) as cluster, Client(cluster) as client:
        before = min(client.run(held, "VmRSS").values())
        watch = Watch()
        watch.start()
        start = time.perf_counter()
        try:
            run(client, arrays, size // 8)
            ended = 1
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            ended = 0
        seconds = time.perf_counter() - start
        watch.ends.set()
        watch.join()
        spilled = sum(client.run(written).values())
        print("result ended", ended, "seconds", seconds, "peak", watch.most - before, "spilled", spilled)
