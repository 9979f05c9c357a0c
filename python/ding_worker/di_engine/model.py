"""What `policy.model` of a config of DI-engine says about the network, and the network that it makes."""

import re

from ding_worker.di_engine.config import flatten
from ding_worker.di_engine.evaluator import Refused, Unread


class Settings:
    """`policy.model` of DI-engine's config: members are used, or compared with the tensors, or left.

    assumed   what was not given, and is taken for granted
    """

    def __init__(self, values):
        self._values = {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in values.items()}
        self.assumed = []

    @property
    def left(self):
        return flatten(self._values, "policy.model.")

    def known(self, name):
        """The member, which stays; None if it is missing or not evaluated."""
        value = self._values.get(name)
        return None if isinstance(value, Unread) else value

    def expect(self, name, found):
        """Compares a member with what the tensors say."""
        value = self.known(name)
        if name not in self._values or isinstance(self._values[name], Unread):
            return
        found = found[0] if isinstance(found, list) and len(found) == 1 else found
        if value is not None and value != found:
            raise Refused(f"policy.model.{name} is {value!r}, but the tensors have {found!r}")
        del self._values[name]

    def take(self, name, default):
        """A member that the tensors do not show; DI-engine's default if it is missing."""
        if name in self._values:
            value = self._values.pop(name)
            if isinstance(value, Unread):
                raise Refused(f"policy.model.{name} is '{value}', which is not known: say --model=\"{name}=...\"")
            return default if value is None else value
        self.assumed.append(f"{name}={default!r} (--model)")
        return default

    def drop(self, name):
        self._values.pop(name, None)

    def allow(self, name, default, expected):
        """Refuses a member with another value than `expected`, of which tensors show nothing."""
        value = self.take(name, default)
        if value not in expected:
            raise Refused(f"policy.model.{name} is {value!r}; converted are {' and '.join(map(repr, expected))}")

    def take_activation(self, flag):
        """ "relu" or "tanh"."""
        text = str(self._values.pop("activation", None) or "")
        match = re.fullmatch(r"(?:[\w.]*\.)?(relu|tanh)(?:\([^()]*\))?", text, re.IGNORECASE)
        if text and not match:
            raise Refused(f"policy.model.activation is {text}; converted are nn.ReLU() and nn.Tanh()")
        found = match[1].lower() if match else None
        if flag is not None and found is not None and flag != found:
            raise Refused(f"--activation is {flag}, but policy.model.activation is {text}")
        if flag is None and found is None:
            self.assumed.append("activation=nn.ReLU() (--activation)")
        return flag or found or "relu"


class ConfiguredModel:
    """The network that DI-engine makes for a policy: fields of our NetworkConfig as `network` and, if it is separate, `critic`.

    params, inside   further fields of the algorithm's message, and of the message in it that several algorithms have
    """

    def __init__(self, policy, settings):
        self.policy = policy
        self.critic, self.params, self.inside, self.num_critics = None, {}, {}, 0
        for name in ("obs_shape", "action_shape"):
            settings.drop(name)  # The env says them.
        if policy in ("ppo", "a2c"):
            self._set_vac(settings)
        elif policy in ("sac", "td3", "ddpg"):
            self._set_qac(settings)
        else:
            self._set_q(settings)
        settings.allow("norm_type", None, [None])

    def _set_q(self, settings):
        widths, layers = _widths(settings), settings.take("head_layer_num", 1)
        hidden = settings.take("head_hidden_size", None) or widths[-1]
        self.network = {"encoder_hidden_size": widths, "head_layer_num": layers, "head_hidden_size": hidden if layers else 0}
        if self.policy == "dqn":
            self.network["dueling"] = settings.take("dueling", True)
        elif self.policy in ("c51", "rainbow"):
            self.network["dueling"] = self.policy == "rainbow"
            self.params = {"v_min": settings.take("v_min", -10), "v_max": settings.take("v_max", 10), "atoms": settings.take("n_atom", 51)}
        elif self.policy == "qrdqn":
            self.params = {"quantiles": settings.take("num_quantiles", 32)}
        else:
            self.params = {"fractions": settings.take("num_quantiles", 32), "cosines": settings.take("quantile_embedding_size", 128) + 1}

    def _set_vac(self, settings):
        shared = settings.take("share_encoder", True)
        heads = []
        for part in ("actor", "critic"):
            width, layers = settings.take(f"{part}_head_hidden_size", 64), settings.take(f"{part}_head_layer_num", 1)
            heads.append({"head_layer_num": layers, "head_hidden_size": width if layers else 0})
        encoder = {"encoder_hidden_size": _widths(settings)}
        self.network = {**encoder, **heads[0]}
        if not shared:
            self.critic = {**encoder, **heads[1]}
        elif heads[0] != heads[1]:
            raise Refused(f"the heads of actor and critic are {heads[0]} and {heads[1]} on one encoder, expected equal ones")
        if settings.take("action_space", "discrete") == "continuous":
            settings.allow("sigma_type", "independent", ["independent"])
            bound = settings.known("bound_type")
            settings.allow("bound_type", None, [None, "tanh"])
            self.inside = {"squash_actions": True} if bound == "tanh" else {}

    def _set_qac(self, settings):
        settings.drop("action_space")
        settings.allow("share_encoder", False, [False])
        sizes = {}
        for part in ("actor", "critic"):
            sizes[part] = [settings.take(f"{part}_head_hidden_size", 64)] * (1 + settings.take(f"{part}_head_layer_num", 1))
        self.network, critic = ({"encoder_hidden_size": sizes[part], "head_layer_num": 0, "head_hidden_size": 0} for part in ("actor", "critic"))
        self.critic = critic if critic != self.network else None
        twin = settings.take("twin_critic", self.policy != "ddpg")
        if self.policy != "sac" and twin != (self.policy == "td3"):
            raise Refused(f"policy.model.twin_critic of {self.policy} is {twin}: here td3 has two critics, and ddpg has one")
        self.num_critics = 2 if twin else 1


def _widths(settings):
    widths = settings.take("encoder_hidden_size_list", [128, 128, 64])
    return list(widths) if isinstance(widths, (list, tuple)) else [widths]
