"""Starts the runs of tools/sweep as steps of a Slurm allocation."""

import os
import re
import shutil
import signal

from plot_runs import Refused
from programs import Programs, ending_with_us


def counts(text):
    """By node: "4(x2),3" is 4, 4, 3."""
    return [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]


def places():
    """How many runs the allocation takes at a time, and the processors of each."""
    if "SLURM_JOB_ID" not in os.environ:
        raise Refused("--slurm needs an allocation of Slurm, and this is none; write: salloc -n 8 tools/sweep --slurm SWEEP, or use sbatch")
    if not shutil.which("srun"):
        raise Refused("srun is not installed; run tools/setup slurm, or leave out --slurm")
    cores = int(os.environ.get("SLURM_CPUS_PER_TASK", 1))
    fit = sum(count // cores for count in counts(os.environ.get("SLURM_JOB_CPUS_PER_NODE", "1")))
    return max(1, min(fit, int(os.environ.get("SLURM_NTASKS", fit)))), cores


def check_jobs(jobs):
    """Returns the runs at a time: `jobs`, or as many as there are places."""
    there, cores = places()
    if jobs is not None and jobs > there:
        raise Refused(
            f"--jobs is {jobs}, but the allocation {os.environ['SLURM_JOB_ID']} has {there} tasks with {cores} processors each; "
            f"leave out --jobs, or allocate more: salloc -n {jobs}"
        )
    return jobs or there


def programs():
    """TERM makes srun kill its step, and it passes USR1 on, upon which a run saves itself."""
    step = ["srun", "--exact", "--nodes=1", "--ntasks=1", f"--cpus-per-task={places()[1]}", "--mem=0", "--gres=none", "--input=none"]
    return Programs([*ending_with_us("TERM"), *step], ending=signal.SIGUSR1, killing=signal.SIGTERM)
