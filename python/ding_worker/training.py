"""Trains in this process, as the program `serial` does:

    run = ding_worker.train("cartpole_ppo", seed=0)                     # a ready config
    run = ding_worker.train("mine.textproto", exp_dir="run")            # a file
    run = ding_worker.train("dqn", env="my_maze:MyMaze", max_env_step=50_000, policy={"learn": {"batch_size": 64}})
    print(run.evaluate(episodes=100)["mean"], run.policy().act(obs))

Ctrl-C saves the run and raises KeyboardInterrupt; ding_worker.train(resume=True, exp_dir=...) goes on. One run at a time trains in a
process.
"""

import difflib
import importlib.util
import json
import logging
import os
import sys

from ding_worker._extension import _core, config_text
from ding_worker.run import Run
from ding_worker.textproto import parse_text_config

_FOLDERS = [os.path.join(os.path.dirname(os.path.abspath(__file__)), *path) for path in (["configs"], ["..", "..", "worker", "configs"])]
_SUFFIX = ".textproto"
_PYTHON_ENVS = ("gymnasium", "pettingzoo")
_log = logging.getLogger("ding_worker")


def ready_configs():
    """Path of each ready config by its name."""
    found = {}
    for folder in reversed(_FOLDERS):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(_SUFFIX):
                found[name[: -len(_SUFFIX)]] = os.path.join(folder, name)
    return found


def train(
    config=None,
    *,
    env=None,
    exp_dir="",
    resume=False,
    on_evaluation=None,
    on_checkpoint=None,
    on_progress=None,
    progress=True,
    **fields,
):
    """Trains, and returns the Run.

    config         the name of a ready config (ready_configs()), a file, a dict of a config's fields, or the type of a policy ("dqn"),
                   whose other fields have their defaults; a run that goes on needs none
    env            the env, if it is another than the config's: a name that make_vec() knows, "module:Class" of a Python env with
                   Gymnasium's interface, an id that gymnasium.make() knows, or a dict of the fields of `env`
    exp_dir        folder of the run, which must not exist (default: a new one, named by exp_name)
    resume         goes on with the run in exp_dir
    on_evaluation  called after each evaluation with a dict: env_step, train_iter, mean_return, text; True ends the run
    on_checkpoint  called after each checkpoint with a dict: name, path, env_step, train_iter; True ends the run
    on_progress    called about once a second with a dict: env_step, train_iter, env_steps_per_second, eval, values ...
    progress       whether a line on stderr shows the progress; on_progress takes its place
    fields         further fields of the config, dicts for sections: seed=0, policy={"learn": {"batch_size": 64}}

    ValueError names each field that is wrong, FileExistsError an exp_dir that exists. If a hook raises, the run saves itself, and the
    exception goes on. Warnings of the run go to the logger "ding_worker".
    """
    text, source = _read(config, exp_dir, resume)
    hooks = {"evaluation": on_evaluation, "checkpoint": on_checkpoint}
    return train_text(text, source, _settings(env, fields, text), exp_dir, resume, hooks, on_progress, progress)


def train_text(text, source, settings, exp_dir="", resume=False, hooks=None, on_progress=None, progress=True):
    """train() for a config's text, which messages call `source`, and settings as `--set` takes them."""
    hooks = hooks or {}

    def tell(kind, name, env_step, train_iter, value, text):
        if kind == "fault":
            _log.warning("%s", text)
        hook = hooks.get(kind)
        if hook is None:
            return False
        own = {"mean_return": value, "text": text} if kind == "evaluation" else {"name": name, "path": text}
        return hook({"env_step": env_step, "train_iter": train_iter, **own}) is True

    bar = _Bar() if progress and on_progress is None else None
    show = bar.show if bar else (lambda text: on_progress(json.loads(text))) if on_progress else None
    path, result, interrupted, saved, error = _core.train(text, source, settings, os.fspath(exp_dir), resume, tell, show)
    if bar:
        bar.end()
    if interrupted:
        print(_how_to_go_on(path, result, saved), file=sys.stderr)
    if error is not None:
        raise error
    return Run(path)


def resolve_config(config, *, env=None, **fields):
    """The config as train() would use it, with each default, in protobuf's text format."""
    text, source = _read(config, "", False)
    return _core.resolve_config(text, source, _settings(env, fields, text))


def _read(config, exp_dir, resume):
    """The text of a config and where it is from."""
    if config is None:
        if not resume or not exp_dir:
            raise ValueError("the config is missing, expected a name, a file or a dict, or resume=True with exp_dir")
        config = os.path.join(exp_dir, "total_config.textproto")
    if isinstance(config, dict):
        return config_text(config), "the dict"
    config = os.fspath(config)
    if not os.path.isfile(config):
        ready = ready_configs()
        policies = _core.entries_of_kind("policy")
        if config in policies and config not in ready:
            return f'exp_name: "{config}" policy {{ type: "{config}" }}', f"policy '{config}'"
        if config not in ready:
            near = difflib.get_close_matches(config, [*ready, *policies], 3)
            raise FileNotFoundError(
                f"there is no config '{config}': no file, no ready config and no policy has this name"
                + (f"; near ones: {', '.join(near)}" if near else "")
            )
        config = ready[config]
    with open(config, encoding="utf-8") as file:
        return file.read(), config


def _settings(env, fields, text):
    """What `--set` would take."""
    settings = []
    if isinstance(env, str):
        if env in _core.entries_of_kind("env"):
            settings.append(f"env.type={env}")
        else:
            near = difflib.get_close_matches(env, list(_core.entries_of_kind("env")), 3)
            if near and importlib.util.find_spec("gymnasium") is None:
                raise ValueError(f"there is no env '{env}', and this Python has no gymnasium, which may know it; near ones: {', '.join(near)}")
            settings += ["env.type=gymnasium", f"env.params.{'entry_point' if ':' in env else 'id'}={env}"]
    elif env is not None:
        fields = {"env": env, **fields}
    settings += flat_settings(fields)
    kind = next((line[len("env.type=") :] for line in settings if line.startswith("env.type=")), None)
    own = parse_text_config(text).get("env", {})
    if (kind or own.get("type")) in _PYTHON_ENVS and "python" not in own.get("params", {}):
        if not any(line.startswith("env.params.python=") for line in settings):
            settings.append(f"env.params.python={sys.executable}")
    return settings


def flat_settings(fields, prefix=""):
    """The nested dicts as a list of "path=value"."""
    settings = []
    for name, value in fields.items():
        if isinstance(value, dict):
            settings += flat_settings(value, f"{prefix}{name}.")
        else:
            settings.append(f"{prefix}{name}={value if isinstance(value, str) else config_text({'x': value})[3:]}")
    return settings


def _how_to_go_on(path, result, saved):
    go_on = f"ding_worker.train(resume=True, exp_dir={path!r})"
    if not saved:
        return f"interrupted before there was anything to save; begin anew with: {go_on}"
    if not result:  # it could not be written; the log has said why
        return f"interrupted; go on with: {go_on}"
    result = json.loads(result)
    return f"interrupted at env step {result['env_step']}, train iteration {result['train_iter']}; go on with: {go_on}"


class _Bar:
    """A line on stderr that is drawn over, in a terminal and in a notebook."""

    _WIDTH = 20

    def __init__(self):
        self._drawn = 0

    def show(self, text):
        now = json.loads(text)
        done = [now[key] / now["max_" + key] for key in ("env_step", "train_iter") if now["max_" + key]]
        parts = []
        if done:
            full = int(min(1, max(done)) * self._WIDTH)
            parts.append(f"[{'#' * full}{'.' * (self._WIDTH - full)}] {min(1, max(done)):4.0%}")
        parts.append(f"env_step {now['env_step']:,}")
        if now["best_eval"] is not None:
            parts.append(f"eval {now['eval']:.4g} best {now['best_eval']:.4g}")
        parts += [f"{name} {value:.3g}" for name, value in list(now["values"].items())[:2] if value is not None]
        if now["left_seconds"] is not None:
            minutes, seconds = divmod(round(now["left_seconds"]), 60)
            parts.append(f"left {minutes}:{seconds:02}")
        line = "  ".join([*parts, now["detail"]]).rstrip()
        print("\r" + line.ljust(self._drawn), end="", file=sys.stderr, flush=True)
        self._drawn = len(line)

    def end(self):
        if self._drawn:
            print(file=sys.stderr)
