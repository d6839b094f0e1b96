"""The commands of a workflow by Dask, each when those before it have ended.

python steps.py WORKERS, in the folder of the workflow: `steps.list` has a line for each task, its name and those of its parents, and
`lines/NAME` what a shell is to run.
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
