"""Trains by a config of DI-engine, or prints what it is here:

  python -m ding_worker.di_engine CONFIG.py [flags]

  --env=NAME         the env, as ding_worker.train() takes it (default: what the config says)
  --policy=TYPE      the policy, if the config does not say it
  --model=SETTINGS   what policy.model would say, such as --model="dueling=False"
  --activation=F     relu or tanh, likewise
  --exp_dir=FOLDER   where the run is written (default: a new folder, named by exp_name)
  --seed=N, --max_env_step=N, --max_train_iter=N
  --print            prints our config, and trains nothing

The config is read, not executed. Lines with # say what is assumed because the config does not say it, and what has no counterpart here.
"""

import argparse
import sys

from ding_worker.di_engine.config import MESSAGES, make_config, model_settings, policy_type, print_text, read_config
from ding_worker.di_engine.evaluator import Refused
from ding_worker.di_engine.model import ConfiguredModel, Settings

# What DI-engine's envs are called here, by their type or id.
_ENVS = {
    "cartpole": "CartPole-v0",
    "pendulum": "Pendulum-v1",
    "mountain_car": "MountainCar-v0",
    "acrobot": "Acrobot-v1",
    "lunarlander": "LunarLander-v3",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    "bipedalwalker": "BipedalWalker-v3",
    **{f"{name}-v3": f"{name}-v4" for name in ("Ant", "HalfCheetah", "Hopper", "Swimmer", "Walker2d")},
}


def _env_of(config, create, settings):
    """The name of our env."""
    env, created = config.get("env", {}), create.get("env", {})
    given = [str(name) for name in (env.get("env_id"), created.get("type"), env.get("type")) if name]
    if not given:
        raise Refused("the config names no env (env.env_id, or create_config.env.type): say --env=NAME")
    name = _ENVS.get(given[0], given[0])
    if name != given[0]:
        settings.assumed.append(f"the env is {name} (--env), for '{given[0]}'")
    return name


def translate(path, env=None, policy=None, model="", activation=None):
    """Our config as text, and lines about what is assumed and what is left out. Refused: it cannot be read, or has no counterpart."""
    theirs, create = read_config(path)
    policy = policy or policy_type(theirs, create)
    if policy not in MESSAGES:
        raise Refused(f"the policy is {policy!r}, expected one of: {', '.join(MESSAGES)} (--policy)")
    settings = Settings({**(theirs.get("policy", {}).get("model") or {}), **model_settings(model)})
    env = env or _env_of(theirs, create, settings)
    if policy in ("sac", "td3", "ddpg") and settings.known("action_space") == "discrete":
        raise Refused(f"policy.model.action_space of {policy} is 'discrete', expected continuous actions")
    activation = settings.take_activation(activation)
    config, left = make_config(ConfiguredModel(policy, settings), activation, env, theirs, create)
    if ":" in env:
        config["env"].update(type="gymnasium", params={"[type.googleapis.com/ding.GymnasiumConfig]": {"entry_point": env, "python": sys.executable}})
    if isinstance(theirs.get("exp_name"), str):
        config["exp_name"] = theirs["exp_name"]
    left = {name: value for name, value in {**settings.left, **left}.items() if name not in _WITHOUT_EFFECT and value != {}}
    notes = [f"# assumed: {text}" for text in settings.assumed] + [f"# not translated: {name} = {value!r}" for name, value in left.items()]
    return "\n".join(print_text(config)) + "\n", notes


# They say nothing about the training that our config does not say elsewhere.
_WITHOUT_EFFECT = ("exp_name", "env.env_id", "env.type", "policy.cuda", "policy.on_policy", "create_config.env.type", "create_config.env.import_names")


def main():
    parser = argparse.ArgumentParser(prog="python -m ding_worker.di_engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--env")
    parser.add_argument("--policy")
    parser.add_argument("--model", default="")
    parser.add_argument("--activation", choices=["relu", "tanh"])
    parser.add_argument("--exp_dir", default="")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--max_env_step", type=int)
    parser.add_argument("--max_train_iter", type=int)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    try:
        text, notes = translate(options.config, options.env, options.policy, options.model, options.activation)
    except (Refused, OSError) as error:
        sys.exit(f"ding_worker.di_engine: {error}")
    if options.print:
        print("\n".join([*notes, text]), end="")
        return
    print("\n".join(notes), file=sys.stderr)
    from ding_worker.training import flat_settings, train_text

    given = {name: getattr(options, name) for name in ("seed", "max_env_step", "max_train_iter") if getattr(options, name) is not None}
    try:
        run = train_text(text, options.config, flat_settings(given), options.exp_dir)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"ding_worker.di_engine: {error}")
    print(f"{run.path}: {run.result['why']}, eval_value {run.result['eval_value']}")


if __name__ == "__main__":
    main()
