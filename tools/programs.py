"""Builds and runs the programs of worker/ for tools/learning_bars and tools/sweep."""

import os
import re
import signal
import subprocess
import tempfile
import threading

# How long a run that is to end may take to save itself.
SAVE_SECONDS = 60
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def build_program(label):
    """Builds the target and returns its program."""
    script = """. "$0/tools/lib.sh" && cd "$root" && run_bazel build --compilation_mode=opt "$1" &&
        bazel info "${bazel_flags[@]}" --compilation_mode=opt bazel-bin 2>/dev/null"""
    bin_folder = subprocess.run(["bash", "-c", script, ROOT, label], check=True, stdout=subprocess.PIPE, text=True).stdout
    return os.path.join(bin_folder.strip(), label.removeprefix("//").replace(":", "/"))


def build_trainer(file):
    """Builds the program that trains by a config file, and returns it with the flag for that."""
    parallel = ["--parallel"] if file.endswith("_parallel.textproto") else []
    command = [os.path.join(ROOT, "tools", "train"), *parallel, "--program", file]
    program = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return [program, f"--config={file}"]


def ending_with_us(name):
    """What starts a program that gets the signal `name` when this process, or the thread that started it, ends. If that was before setpriv
    asked for the signal, the shell starts nothing."""
    return ["setpriv", "--pdeathsig", name, "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]


class Interrupted(Exception):
    """A run has ended before its end because this program was told to stop."""


class Programs:
    """Runs programs, and passes a signal on to them. Their own group keeps them from getting the terminal's Ctrl-C as well.
    `prefix` starts them. `ending` is the signal that ends one in order, by default the one that came; `killing` ends one at once."""

    def __init__(self, prefix=(), ending=None, killing=signal.SIGKILL):
        self.prefix, self.ending, self.killing = list(prefix), ending, killing
        self.lock = threading.RLock()
        self.running = set()
        self.overdue = set()
        self.signal = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self.stop)

    def stop(self, number, _frame):
        with self.lock:
            self.signal = number
            for pid in self.running:
                os.kill(pid, self.ending or number)

    def end_overdue(self, pid, number):
        with self.lock:
            if pid in self.running:
                self.overdue.add(pid)
                os.kill(pid, number)

    def run(self, arguments, on_cpu_seconds=None, max_seconds=0, **options):
        """The output of a program. RuntimeError with its last words if it fails, or was ended after `max_seconds`. `on_cpu_seconds` hears
        what it took, however it ended."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with self.lock:
                if self.signal:
                    raise Interrupted
                process = subprocess.Popen(self.prefix + arguments, stdout=out, stderr=err, start_new_session=True, **options)
                self.running.add(process.pid)
            limits = [(max_seconds, self.ending or signal.SIGINT), (max_seconds + SAVE_SECONDS, self.killing)] if max_seconds else []
            timers = [threading.Timer(seconds, self.end_overdue, (process.pid, number)) for seconds, number in limits]
            for timer in timers:
                timer.daemon = True
                timer.start()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with self.lock:
                self.running.remove(process.pid)
                overdue = process.pid in self.overdue
                self.overdue.discard(process.pid)
                # Now, so that no signal goes to another process with this id.
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            for timer in timers:
                timer.cancel()
            if on_cpu_seconds:
                on_cpu_seconds(usage.ru_utime + usage.ru_stime)
            if self.signal and process.returncode != 0:
                raise Interrupted
            if overdue and process.returncode != 0:
                raise RuntimeError(f"it was ended after {max_seconds} s")
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().strip())
        if process.returncode != 0:
            words = (said[1] or said[0]).splitlines()[-3:]
            name = os.path.basename(arguments[0])
            raise RuntimeError(f"{name} ended with status {process.returncode}: " + " | ".join(words))
        return said[0]
