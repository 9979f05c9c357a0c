"""What a Slurm job of tools/launch does, on its first node: starts Redis, the coordinator and, as job steps, the workers; watches them,
and ends them in order. tools/launch puts it behind the #SBATCH lines and a JOB with what was asked for.

  JOB   program files and folders: job (of this job alone, shared by its nodes), run (made by the coordinator)
        collectors, learners: numbers of workers; cpus, gpus: of each worker, of each learner
        grouped: whether the learners train one policy together, through an aggregator
        address: host name, IP address or interface of the first node for the others; None: by which Slurm reaches it
        store: "redis" or "folder"; redis_memory: its maxmemory; requeues: after so many it is not requeued at a time limit

Signals: USR1 (Slurm sends it before the time limit) saves the run and requeues the job; TERM (scancel, preemption) saves the run. Slurm
also sends TERM to every process of this job, so Redis and the coordinator ignore it: the run is saved before they end.
"""

import ctypes
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

PERIOD = 0.2  # seconds between two looks at the processes
STATUS_PERIOD = 1  # seconds between two questions to the coordinator
SAVE_SECONDS = 75  # for the coordinator, to save; Slurm may allow less
LEAVE_SECONDS = 20  # for workers, to leave
MAX_DEATHS = 5  # of Redis or the coordinator, in a row and each within YOUNG seconds; then the job fails
MAX_DEATHS_UNJOINED = 3  # of a worker, while none has joined; then the job fails
YOUNG = 60
NODE_PAUSE = 60  # seconds without new workers on a node whose steps fail
OUT_OF_TIME = 128 + signal.SIGUSR1

LIBC = ctypes.CDLL(None)
OUR_PID = os.getpid()

joined = []  # names of workers that have been in the status


class Failed(Exception):
    """The job cannot go on; the message says why, and what to do."""


def say(text):
    print(f"launch: {text}", flush=True)


def path(*parts):
    return os.path.join(JOB["job"], *parts)  # noqa: F821  tools/launch defines JOB


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failed(f"'{' '.join(command)}' failed: {done.stderr.strip()}")
    return done.stdout


def tail(file, begin=0, lines=15):
    """The last lines of a log from an offset on, indented."""
    try:
        with open(file, "rb") as log:
            log.seek(max(begin, os.path.getsize(file) - 8192))
            return "".join(f"\n    {line}" for line in log.read().decode(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"\n    {error}"


def interfaces():
    """{name: IPv4 address} of this machine."""
    lines = [line.split() for line in call("ip", "-oneline", "-4", "address").splitlines()]
    return {line[1]: line[3].split("/")[0] for line in lines}


def node_address(node):
    return re.search(r"NodeAddr=(\S+)", call("scontrol", "show", "node", node, "-o")).group(1)


def choose_address(nodes):
    """The address of this machine at which the other nodes reach it."""
    wanted = JOB["address"] or node_address(nodes[0])  # noqa: F821
    mine = interfaces()
    candidates = "; expected --address= one of " + ", ".join(f"{name} ({ip})" for name, ip in mine.items())
    try:
        ip = mine.get(wanted) or socket.gethostbyname(wanted)
    except OSError as error:
        raise Failed(f"the address '{wanted}' of the first node is not known here: {error}{candidates}") from error
    if ip not in mine.values():
        raise Failed(f"'{wanted}' is {ip}, which is no address of {socket.gethostname()}{candidates}")
    if ip.startswith("127.") and any(not node_address(node).startswith("127.") for node in nodes):
        raise Failed(f"'{wanted}' is {ip}, where other nodes do not reach {socket.gethostname()}{candidates}")
    return ip


def claim():
    """Makes this the job of the run's folder; refuses a second one."""
    me = os.environ["SLURM_JOB_ID"]
    try:
        with open(path("owner")) as file:
            owner = file.read()
    except OSError:
        owner = me
    if owner != me:
        there = subprocess.run(["squeue", "-h", "-j", owner, "-o", "%T"], capture_output=True, text=True, timeout=60)
        if there.stdout.strip() and there.stdout.strip() != "PENDING":
            raise Failed(f"job {owner} ({there.stdout.strip()}) works on this run: end it first (scancel {owner})")
    with open(path("owner"), "w") as file:
        file.write(me)


def certs(role):
    folder = path("certs", role)
    return [f"--tls_{kind}={folder}/{kind}.pem" for kind in ("ca", "cert", "key")] + [f"--token_file={folder}/tokens"]


def as_child():
    """Runs in a process that is about to become Redis or the coordinator: it ignores TERM, as blocked signals stay blocked, and ends with
    this process, however that ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    LIBC.prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
    if os.getppid() != OUR_PID:  # It ended before that.
        os._exit(1)


class Process:
    """Something that is started again when it dies. `start` returns a Popen."""

    def __init__(self, name, start):
        self.name, self.start, self.deaths = name, start, 0
        self.popen, self.since = start(again=False), time.monotonic()

    def died(self):
        """Starts it again if it has died. Returns whether it had."""
        if self.popen.poll() is None:
            return False
        self.deaths = self.deaths + 1 if time.monotonic() - self.since < YOUNG else 1
        if self.deaths >= MAX_DEATHS:
            raise Failed(f"{self.name} ended {self.deaths} times in a row, last with {self.popen.returncode}")
        say(f"{self.name} ended with {self.popen.returncode}; it is started again")
        self.popen, self.since = self.start(again=True), time.monotonic()
        return True

    def end(self, how, seconds):
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            say(f"{self.name} has not ended within {seconds} s; it is killed")
            self.popen.kill()
            self.popen.wait()


class Server(Process):
    """Listens at a port that the system chooses. It keeps the port when it is started again, unless it died young: another program may
    have taken the port."""

    def __init__(self, name, address):
        self.address, self.port = address, 0
        super().__init__(name, self.start_there)

    def start_there(self, again):
        if not again or time.monotonic() - self.since < 5:
            with socket.socket() as probe:
                probe.bind((self.address, 0))
                self.port = probe.getsockname()[1]
        return self.run()


class Redis(Server):
    """Keeps its data in the job's folder, so that they survive the node."""

    def __init__(self, address):
        if not shutil.which("redis-server"):
            raise Failed(f"redis-server is missing on {socket.gethostname()}: install it, or use --store=folder")
        os.makedirs(path("redis"), exist_ok=True)
        self.password = secrets.token_hex(32)
        with open(path("certs", "redis_password"), "w") as file:
            file.write(self.password + "\n")
        super().__init__("redis-server", address)
        deadline = time.monotonic() + 60
        while not self.answers():
            self.died()
            if time.monotonic() > deadline:
                self.popen.kill()
                raise Failed(f"redis-server does not answer within a minute:{tail(path('log', 'redis.txt'))}")
            time.sleep(PERIOD)

    def run(self):
        lines = [f"bind {self.address}", f"port {self.port}", f"requirepass {self.password}", f"dir {path('redis')}",
                 f"maxmemory {JOB['redis_memory']}", "maxmemory-policy noeviction", "appendonly yes",  # noqa: F821
                 "appendfsync no", 'save ""', f"logfile {path('log', 'redis.txt')}"]
        with open(path("certs", "redis.conf"), "w") as file:
            file.write("\n".join(lines) + "\n")
        return subprocess.Popen(["redis-server", path("certs", "redis.conf")], preexec_fn=as_child)

    def answers(self):
        try:
            with socket.create_connection((self.address, self.port), 1) as s:
                s.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                replies = s.makefile("rb")
                return replies.readline() == b"+OK\r\n" and replies.readline() == b"+PONG\r\n"
        except OSError:
            return False


class Coordinator(Process):
    def __init__(self, address, store_url):
        self.address, self.store_url = address, store_url
        self.file = os.path.join(JOB["run"], "coordinator/address")  # noqa: F821
        super().__init__("the coordinator", self.run)

    def run(self, again):
        run, known = JOB["run"], os.path.join(JOB["run"], "coordinator/run.textproto")  # noqa: F821
        command = [path("bin/parallel"), "--role=coordinator", f"--exp_dir={run}", f"--listen={self.address}:0",
                   f"--supervised_by={os.getpid()}"]
        if again or not os.path.exists(known):
            command += [f"--config={path('config.textproto')}", f"--set=system.store_url=\"{self.store_url}\""]
            command += ["--again"] if os.path.exists(run) else []
        else:
            with open(known) as file:
                text = file.read()
            with open(known, "w") as file:  # Its Redis has another address now.
                file.write(re.sub(r"redis:[^/]*/", f"{self.store_url.split('/')[0]}/", text))
            if os.path.exists(self.file):
                os.remove(self.file)
            command += ["--resume"]
        return subprocess.Popen(command + certs("coordinator"), preexec_fn=as_child)

    def where(self):
        """HOST:PORT; None before it listens."""
        try:
            with open(self.file) as file:
                return file.read().strip()
        except OSError:
            return None


class Aggregator(Server):
    """Joins the coordinator as one learner, and has the learners of the job behind it."""

    def __init__(self, address, coordinator):
        self.coordinator = coordinator
        super().__init__("the aggregator", address)

    def run(self):
        with open(path("log", "aggregator-0.txt"), "a") as log:
            return subprocess.Popen(
                [path("bin/parallel"), "--role=aggregator", "--name=aggregator-0", f"--coordinator={self.coordinator}",
                 f"--listen={self.address}:{self.port}", "--gpus=0", f"--supervised_by={os.getpid()}"] + certs("coordinator"),
                preexec_fn=as_child, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Worker:
    def __init__(self, name, node, coordinator, more=()):
        self.name, self.node, self.since = name, node, time.monotonic()
        role = name.split("-")[0]
        cpus, gpus = str(JOB["cpus"]), JOB["gpus"] if role == "learner" else 0  # noqa: F821
        self.log = path("log", f"{name}.txt")
        self.log_begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        environment = dict(os.environ, OMP_NUM_THREADS=cpus, OPENBLAS_NUM_THREADS=cpus)
        self.popen = subprocess.Popen(
            ["srun", "--exact", "--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}", "--mem=0", f"--nodelist={node}",
             f"--gres={f'gpu:{gpus}' if gpus else 'none'}", f"--job-name={name}", "--kill-on-bad-exit=0", "--open-mode=append",
             f"--output={self.log}", path("bin/parallel"), f"--role={role}", f"--name={name}", f"--coordinator={coordinator}",
             f"--gpus={gpus}", *more] + certs(role), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.log, "a"))


class Workers:
    """The steps of the job. Every step takes a slot of its node, and as many of its processors as a task of the job has."""

    def __init__(self, nodes, address):
        self.address, self.aggregator = address, None
        counts = []
        for part in os.environ["SLURM_TASKS_PER_NODE"].split(","):
            number, _, times = part.partition("(x")
            counts += [int(number)] * int(times.rstrip(")") or 1)
        self.slots = dict(zip(nodes, counts))
        self.slots[nodes[0]] -= 1  # Redis and the coordinator
        self.there, self.deaths, self.avoid, self.told = {}, {}, {}, 0

    def on(self, node, role=""):
        return sum(worker.node == node and worker.name.startswith(role) for worker in self.there.values())

    def free(self, name):
        """The best node for another worker: learners are spread over the GPUs, others over the tasks. None: there is none now."""
        nodes = [node for node, slots in self.slots.items() if slots > self.on(node) and self.avoid.get(node, 0) < time.monotonic()]
        learner = name.startswith("learner")
        return max(nodes, key=lambda node: (-self.on(node, "learner") if learner else 0, self.slots[node] - self.on(node)), default=None)

    def reap(self):
        if self.aggregator and self.aggregator.popen.poll() != 0:  # 0: it was told to leave.
            self.aggregator.died()
        for worker in [worker for worker in self.there.values() if worker.popen.poll() is not None]:
            del self.there[worker.name]
            if worker.popen.returncode == 0:
                self.deaths.pop(worker.name, None)
                continue
            if worker.popen.returncode == 128 + signal.SIGTERM:
                continue  # It was asked to.
            young = time.monotonic() - worker.since < YOUNG
            self.deaths[worker.name] = self.deaths.get(worker.name, 0) + 1 if young else 1
            say(f"{worker.name} on {worker.node} ended with {worker.popen.returncode}; its last lines:{tail(worker.log, worker.log_begin)}")
            if not joined and self.deaths[worker.name] >= MAX_DEATHS_UNJOINED:
                raise Failed(f"no worker has joined, and {worker.name} has ended {MAX_DEATHS_UNJOINED} times; its log is {worker.log}")
            if young:
                self.avoid[worker.node] = time.monotonic() + min(NODE_PAUSE, 2 ** self.deaths[worker.name])

    def ensure(self, wanted, coordinator):
        """Starts what is missing, learners first."""
        collectors = sum(name.startswith("collector-") for name in self.there)
        names = [f"learner-{i}" for i in range(JOB["learners"])]  # noqa: F821
        names = [name for name in names if name not in self.there]
        number = 0
        while collectors < wanted:
            if f"collector-{number}" not in self.there:
                names.append(f"collector-{number}")
                collectors += 1
            number += 1
        for i, name in enumerate(names):
            node = self.free(name)
            if node is None:
                if len(self.there) == sum(self.slots.values()) and self.told != wanted:
                    self.told = wanted
                    say(f"{len(names) - i} workers have no place: the job has no task left (tools/launch --spare_tasks)")
                return
            self.there[name] = self.start(name, node, coordinator)

    def start(self, name, node, coordinator):
        if not JOB["grouped"] or not name.startswith("learner"):  # noqa: F821
            return Worker(name, node, coordinator)
        self.aggregator = self.aggregator or Aggregator(self.address, coordinator)
        first = next(iter(self.slots))
        try:
            host = self.address if node == first else socket.gethostbyname(node_address(node))
        except OSError as error:
            raise Failed(f"the address of node {node}, '{node_address(node)}', is not known on {socket.gethostname()}: {error}") from error
        return Worker(name, node, f"{self.address}:{self.aggregator.port}", [f"--all_reduce_host={host}"])

    def end(self):
        """They were told by the coordinator, or by Slurm; a step of one that does not leave is killed, as TERM makes srun do."""
        deadline = time.monotonic() + LEAVE_SECONDS
        for worker in self.there.values():
            try:
                worker.popen.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"{worker.name} did not leave within {LEAVE_SECONDS} s, and is killed")
                worker.popen.terminate()
                worker.popen.wait()
        if self.aggregator:
            self.aggregator.end(signal.SIGUSR1, LEAVE_SECONDS)


def requeue():
    """After the time limit. Returns the status of this job if it is not requeued."""
    count = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    if count >= JOB["requeues"]:  # noqa: F821
        say(f"the job is out of time, and was requeued {count} times already (tools/launch --requeues)")
        return OUT_OF_TIME
    say(f"the job is out of time: it is requeued ({count + 1} of at most {JOB['requeues']} times)")  # noqa: F821
    try:
        call("scontrol", "requeue", os.environ["SLURM_JOB_ID"])
        time.sleep(120)  # Slurm ends this process.
    except Failed as error:
        say(error)
    return OUT_OF_TIME


def ask(coordinator):
    return subprocess.Popen([path("bin/ctl"), "status", "--json", f"--coordinator={coordinator}", "--timeout=10"] +
                            certs("operator"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def watch(coordinator, redis, workers, asked_to_end):
    """Until the coordinator has ended, which returns its status."""
    question, next_question = None, 0
    while coordinator.popen.poll() is None or (coordinator.popen.returncode < 0 and coordinator.died()):
        if asked_to_end:
            say(f"got {signal.Signals(asked_to_end[0]).name}: the run is saved")
            coordinator.end(signal.SIGUSR1, SAVE_SECONDS)
            return coordinator.popen.returncode
        time.sleep(PERIOD)
        if redis and not asked_to_end:
            redis.died()
        if not asked_to_end:
            workers.reap()
        address = coordinator.where()
        if question is None and address and time.monotonic() >= next_question:
            question, next_question = ask(address), time.monotonic() + STATUS_PERIOD
        if question is None or question.poll() is None:
            continue
        text, question = question.communicate()[0], None
        status = json.loads(text) if text.startswith("{") else {}
        if status.get("coordinator_pid") != coordinator.popen.pid:
            continue
        there = [member for worker in status["workers"] for member in worker.get("members") or [worker]]
        new = [worker["name"] for worker in there if worker["name"] not in joined and worker["name"] != "aggregator-0"]
        if new and not joined:
            say(f"the first worker has joined {address}; look at the run with {path('ctl')} status")
            with open(path("joined"), "w") as file:
                file.write(os.environ["SLURM_JOB_ID"])
        joined.extend(new)
        if status["wanted_collectors"] > 0:  # None is wanted when the run is over.
            workers.ensure(status["wanted_collectors"], address)
    return coordinator.popen.returncode


def run_job():
    os.umask(0o077)
    asked_to_end = []
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, lambda got, _: asked_to_end.append(got))
    claim()
    nodes = call("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()
    address = choose_address(nodes)
    if not os.path.exists(path("bin/parallel")):
        raise Failed(f"there is no {path('bin/parallel')}: the run has ended, or its folder is not shared with this node")
    say(f"job {os.environ['SLURM_JOB_ID']} on {', '.join(nodes)}; {socket.gethostname()} ({address}) has the coordinator")
    for left in ("certs", "joined"):
        subprocess.run(["rm", "-rf", path(left)], check=True)
    made = subprocess.run([path("tools/make_certs"), path("certs"), address], capture_output=True, text=True)
    if made.returncode != 0:
        raise Failed(f"there are no certificates: {made.stderr.strip()}")
    shutil.rmtree(path("certs/ca"))
    redis = coordinator = status = None
    workers = Workers(nodes, address)
    try:
        store = f"file:{path('store')}"
        if JOB["store"] == "redis":  # noqa: F821
            redis = Redis(address)
            store = f"redis:{address}:{redis.port}/runs?password_file={path('certs/redis_password')}"
        coordinator = Coordinator(address, store)
        status = watch(coordinator, redis, workers, asked_to_end)
        say(f"the coordinator ended with {status}")
    finally:
        if coordinator:
            coordinator.end(signal.SIGUSR1, SAVE_SECONDS)
        workers.end()
        if redis:
            redis.end(signal.SIGINT, 15)
        shutil.rmtree(path("certs"))
    if status == OUT_OF_TIME:
        say(f"the run is saved. If Slurm does not requeue the job, go on with: sbatch {path('script')}")
    if status == 0:  # The result is in the run's folder.
        for done in ("bin", "tools", "redis", "store"):
            shutil.rmtree(path(done), ignore_errors=True)
    return requeue() if signal.SIGUSR1 in asked_to_end[:1] and status == OUT_OF_TIME else status % 256


if __name__ == "__main__":
    try:
        sys.exit(run_job())
    except Failed as error:
        say(f"the job has failed: {error}")
        sys.exit(1)
