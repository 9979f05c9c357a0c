"""Reads the file of a sweep for tools/sweep, and refuses what cannot be run."""

import itertools
import math
import os
import re
import subprocess
import tempfile

from plot_runs import Refused
from programs import ROOT, build_trainer

PROTO = os.path.join(ROOT, "tools", "sweep.proto")
# Combinations of a grid. Each is a trial in the storage.
MAX_TRIALS = 10_000
# How often PBT draws a value anew rather than near the old one.
DRAW_ANEW = 0.25


def read_message(path):
    """The Sweep in a text file. Its descriptor is compiled by protoc, so that no generated code lies in the tree."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "sweep.pb")
        try:
            command = ["protoc", f"--proto_path={os.path.dirname(PROTO)}", f"--descriptor_set_out={out}", PROTO]
            subprocess.run(command, check=True)
        except FileNotFoundError:
            raise Refused("protoc is not installed; run tools/setup sweep") from None
        with open(out, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    sweep = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("ding.Sweep"))()
    try:
        text_format.Parse(text, sweep, descriptor_pool=pool)
    except text_format.ParseError as error:
        methods = ", ".join(sweep.DESCRIPTOR.enum_types_by_name["Method"].values_by_name)
        hint = "; its fields are in tools/sweep.proto"
        if '"ding.Sweep.Method"' in str(error):
            hint = f"; write one of {methods}: method: TPE"
        raise Refused(f"'{path}': line {str(error).strip().rstrip('.')}{hint}") from None
    return sweep


class Parameter:
    """A setting that is searched: its path, and its values or its bounds."""

    def __init__(self, message, where):
        self.path = message.path
        if not self.path:
            raise Refused(f'{where}: a parameter has no path; write path: "policy.learn.batch_size"')
        kinds = [field.name for field, _ in message.ListFields() if field.name != "path"]
        where = f"{where}: parameter '{self.path}'"
        if len(kinds) != 1:
            raise Refused(
                f"{where} has {' and '.join(kinds) or 'no values'}; write one of "
                'value: ["32", "64"], range { low: 0 high: 1 }, integers { low: 1 high: 8 }'
            )
        self.values, self.whole, self.log, self.points = list(message.value), kinds[0] == "integers", False, 0
        if self.values:
            for value in self.values:
                if self.values.count(value) > 1:
                    raise Refused(f"{where} has the value '{value}' twice; write it once")
            return
        bounds = getattr(message, kinds[0])
        self.low, self.high, self.log, self.points = bounds.low, bounds.high, bounds.log, bounds.points
        found = f"{kinds[0]} {{ low: {self.low:g} high: {self.high:g} }}"
        if not (bounds.HasField("low") and bounds.HasField("high") and self.low < self.high and math.isfinite(self.high - self.low)):
            raise Refused(f"{where} has the empty {found}; write low less than high: {kinds[0]} {{ low: 1 high: 10 }}")
        if self.log and self.low <= 0:
            raise Refused(f"{where} has {found} on a log scale; write low above 0, or leave out log: true")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            raise Refused(f"{where} has {found}; write whole numbers, or range instead of integers")
        if self.whole:
            self.low, self.high = int(self.low), int(self.high)

    def suggest(self, trial):
        """The value of an Optuna trial, drawn unless it has one."""
        if self.values:
            return trial.suggest_categorical(self.path, self.values)
        suggest = trial.suggest_int if self.whole else trial.suggest_float
        return suggest(self.path, self.low, self.high, log=self.log)

    def perturbed(self, value, factor, rng):
        """Another value near this one, or drawn anew."""
        place = self.values.index(value) if self.values else None
        if rng.random() < DRAW_ANEW:
            if self.values:
                return rng.choice(self.values[:place] + self.values[place + 1 :])
            low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
            drawn = rng.uniform(low, high)
            return min(max(math.exp(drawn) if self.log else drawn, self.low), self.high)
        if self.values:
            return rng.choice([self.values[i] for i in (place - 1, place + 1) if 0 <= i < len(self.values)])
        near = [min(max(value * times, self.low), self.high) for times in (factor, 1 / factor)]
        return rng.choice([other for other in near if other != value] or [rng.uniform(self.low, self.high)])

    def check_perturbed(self, where):
        """Refuses what PBT cannot change."""
        where = f"{where}: parameter '{self.path}'"
        if not re.fullmatch("[a-z_]+", self.path):
            raise Refused(f'{where} is no field of policy.schedule, which PBT writes; write a name without its path: path: "learning_rate"')
        if self.whole:
            raise Refused(f"{where} has integers, which PBT cannot change; write range")
        if len(self.values) == 1:
            raise Refused(f"{where} has one value, which PBT cannot change; write two or more, or a range")
        for value in self.values:
            if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value):
                raise Refused(f"{where} has the value '{value}', but PBT changes numbers only; leave the parameter out")

    def grid(self, where):
        if self.values:
            return self.values
        if self.whole and not self.points and self.high - self.low < 100 and not self.log:
            return list(range(self.low, self.high + 1))
        if self.points < 2:
            raise Refused(f"{where}: parameter '{self.path}' has no points, which a grid needs; write points: 5 behind its bounds")
        shares = [i / (self.points - 1) for i in range(self.points)]
        if self.log:
            values = [self.low ** (1 - share) * self.high**share for share in shares]
        else:
            values = [self.low + (self.high - self.low) * share for share in shares]
        values = [min(max(float(f"{value:.12g}"), self.low), self.high) for value in values]
        return list(dict.fromkeys(round(value) for value in values)) if self.whole else values

    def ends(self):
        return self.values or [self.low, self.high]


class Plan:
    """A checked sweep. `rungs` are the budgets of a trial one after the other, or [None] for the config's own budget."""

    def __init__(self, path):
        self.path = path
        self.message = message = read_message(path)
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.config = self.beside(message.config)
        if not message.config or not os.path.isfile(self.config):
            raise Refused(
                f"'{path}': config is '{message.config}', and there is no file '{self.config}'; "
                'write config: "FILE", seen from the folder of the sweep\'s file'
            )
        self.method = message.DESCRIPTOR.enum_types_by_name["Method"].values_by_number[message.method].name
        self.parameters = [Parameter(parameter, f"'{path}'") for parameter in message.parameter]
        if not self.parameters:
            batch_size = 'path: "policy.learn.batch_size" value: ["32", "64"]'
            rate = 'path: "learning_rate" range { low: 0.0001 high: 0.01 log: true }'
            raise Refused(f"'{path}' has no parameter; write parameter {{ {rate if self.method == 'PBT' else batch_size} }}")
        paths = [parameter.path for parameter in self.parameters]
        parameters = dict(zip(paths, self.parameters))
        for name in paths:
            if paths.count(name) > 1:
                raise Refused(f"'{path}' has two parameters '{name}'; write one")
            if self.method != "GRID" and parameters[name].points:
                raise Refused(f"'{path}': parameter '{name}' has points, which only a grid has; leave them out, or write method: GRID")
        if not 1 <= message.seeds <= 1000:
            raise Refused(f"'{path}': seeds is {message.seeds}; write 1 to 1000: seeds: 3")
        self.grid = []
        if self.method == "GRID":
            axes = [parameter.grid(f"'{path}'") for parameter in self.parameters]
            count = math.prod(map(len, axes))
            if message.HasField("trials") and message.trials != count:
                raise Refused(f"'{path}': trials is {message.trials}, but the grid has {count} combinations; leave out trials")
            if count <= MAX_TRIALS:
                self.grid = [dict(zip(paths, values)) for values in itertools.product(*axes)]
        self.trials = count if self.method == "GRID" else message.trials
        if not 1 <= self.trials <= MAX_TRIALS:
            example = "fewer points" if self.method == "GRID" else "trials: 30"
            raise Refused(f"'{path}' has {self.trials} trials; write 1 to {MAX_TRIALS}: {example}")
        if message.HasField("max_seconds") and message.max_seconds < 1:
            raise Refused(f"'{path}': max_seconds is {message.max_seconds}; write 1 or more: max_seconds: 3600")
        self.budget, self.rungs = self.read_rungs()
        self.pbt = self.method == "PBT"
        self.seeds = 1 if self.pbt else message.seeds
        if self.pbt:
            self.check_pbt()
        elif message.HasField("pbt"):
            raise Refused(f"'{path}' has pbt and method: {self.method}; write method: PBT, or leave out pbt")

    def check_pbt(self):
        """Refuses what population-based training cannot have."""
        message, where = self.message, f"'{self.path}'"
        if message.HasField("halving"):
            raise Refused(f"{where} has halving and method: PBT, which ends no run early; leave out one of them")
        if message.HasField("seeds"):
            raise Refused(f"{where} has seeds, but each member of PBT has one seed, its number; leave out seeds")
        if self.trials < 2:
            raise Refused(f"{where} has {self.trials} trials, but PBT compares its members; write 2 or more: trials: 8")
        if message.pbt.factor <= 1:
            raise Refused(f"{where}: factor is {message.pbt.factor:g}; write a number above 1: pbt {{ factor: 1.25 }}")
        if self.config.endswith("_parallel.textproto"):
            raise Refused(f"{where}: config is '{message.config}', but PBT needs a serial run; write the config of one")
        for parameter in self.parameters:
            parameter.check_perturbed(where)

    def beside(self, name):
        return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(self.path)), name))

    def read_rungs(self):
        """The flag of the budget, and the rungs."""
        message = self.message
        given = [name for name in ("max_env_step", "max_train_iter") if message.HasField(name)]
        if len(given) > 1:
            raise Refused(f"'{self.path}' has max_env_step and max_train_iter; write one of them")
        last = getattr(message, given[0]) if given else None
        if given and last < 1:
            raise Refused(f"'{self.path}': {given[0]} is {last}; write 1 or more")
        if message.method == message.PBT:
            interval = message.pbt.interval
            if not given:
                raise Refused(f"'{self.path}' has method: PBT, which needs the budget of each member; write max_env_step: 100000")
            if not 1 <= interval < last:
                raise Refused(
                    f"'{self.path}' has pbt {{ interval: {interval} }} with {given[0]}: {last}; "
                    f"write 1 to less than {last}: pbt {{ interval: {max(1, last // 10)} }}"
                )
            return given[0], [*range(interval, last, interval), last]
        if not message.HasField("halving"):
            return (given[0] if given else ""), [last]
        halving = message.halving
        if not given:
            raise Refused(f"'{self.path}' has halving, which needs the budget of the last rung; write max_env_step: 100000")
        if not 1 <= halving.first < last or halving.factor < 2:
            raise Refused(
                f"'{self.path}' has halving {{ first: {halving.first} factor: {halving.factor} }} with {given[0]}: {last}; write "
                f"first from 1 to less than {last}, and factor 2 or more: halving {{ first: {max(1, last // 9)} factor: 3 }}"
            )
        rungs = [halving.first]
        while rungs[-1] * halving.factor < last:
            rungs.append(rungs[-1] * halving.factor)
        return given[0], [*rungs, last]

    def find_trainer(self):
        """The command that trains by the config."""
        if not self.message.program:
            return build_trainer(self.config)
        program = self.beside(self.message.program)
        if not os.access(program, os.X_OK):
            raise Refused(f"'{self.path}': program is '{self.message.program}', and '{program}' cannot be run; write a program that trains")
        return [program, f"--config={self.config}"]

    def resolved(self, trainer, settings, budget=None):
        """The config with these settings, as a run would have it."""
        command = [*trainer, *self.flags(settings, budget), "--print_config"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError((done.stderr or done.stdout).strip())
        # Without where its defaults come from, which changes nothing.
        return re.sub(r"  # default of [^\n]*", "", done.stdout)

    def schedule(self, intervals):
        """The setting that gives the parameters these values, interval by interval."""
        unit = "TRAIN_ITER" if self.budget == "max_train_iter" else "ENV_STEP"
        steps = [end - begin for begin, end in zip([0, *self.rungs], self.rungs)]
        phases = [
            f'{{field: "{path}" type: "constant" unit: {unit} start: {values[path]} steps: {length}}}'
            for values, length in zip(intervals, steps)
            for path in values
        ]
        return {"policy.schedule": f"[{', '.join(phases)}]"}

    def flags(self, settings, budget=None):
        settings = [*self.message.set, *(f"{path}={value}" for path, value in settings.items())]
        return [f"--set={setting}" for setting in settings] + ([f"--{self.budget}={budget}"] if budget else [])

    def check(self, trainer):
        """Refuses paths and values that --set does not take. Other problems of a value may depend on other values; they are left to
        the trials. Returns the config without the parameters."""
        try:
            config = self.resolved(trainer, {})
        except RuntimeError as error:
            raise Refused(f"'{self.path}': the config cannot be run with the fixed values: {error}") from None
        if self.pbt and re.search(r"^  schedule {", config, re.MULTILINE):
            raise Refused(f"'{self.path}': the config has policy.schedule, which PBT writes; leave it out of the config")
        for parameter in [] if self.pbt else self.parameters:
            for value in parameter.ends():
                try:
                    self.resolved(trainer, {parameter.path: value})
                except RuntimeError as error:
                    if "--set:" in str(error):
                        raise Refused(f"'{self.path}': parameter '{parameter.path}' cannot be set to '{value}': {error}") from None
        return config
