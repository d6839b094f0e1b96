"""Workflow of commands with Dask. Each command starts when its parents have ended.

Run `python steps.py WORKERS` in the folder of the workflow. `steps.list` has one line for each task: its name and the names of its parents.
`lines/NAME` contains the shell command of a task.
"""

import subprocess
import sys

from distributed import Client, LocalCluster


def run(name, *_):
    subprocess.run(["sh", f"lines/{name}"], check=True)


if __name__ == "__main__":
    workers = int(sys.argv[1])
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            ended = {}
            with open("steps.list") as steps:
                for step in steps:
                    name, *parents = step.split()
                    before = [ended[parent] for parent in parents]
                    ended[name] = client.submit(run, name, *before, key=name, pure=False)
            client.gather(list(ended.values()))
