"""Policies as a graph declares them: the shape of the network, never its device or batch.

Invariant: declaring one imports no torch. `accepts` says in words why an observation does not fit.
"""

from __future__ import annotations

from typing import Any, Literal

from ebrl.frontend.program import ActionProgram, EnvironmentProgram
from ebrl.frontend.spec import Spec, Tensor
from ebrl.stages.base import Policy

Activation = Literal["tanh", "relu", "elu", "silu"]


class MLPPolicy(Policy):
    """Fully connected actor and critic, each with its own `hidden` layers.

    Takes float vectors; several (a Dict) are concatenated in the order of their paths. Continuous
    actions are Gaussian with a log-std that does not depend on the state and starts at
    `log_std_init`; discrete ones are categorical. `normalise_obs` keeps a running mean and variance
    with the weights. `chunk` actions are answered at once, each executed for one environment step.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (64, 64),
        *,
        activation: Activation = "tanh",
        log_std_init: float = 0.0,
        normalise_obs: bool = False,
        chunk: int = 1,
    ) -> None:
        self.hidden = tuple(hidden)
        self.activation = activation
        self.log_std_init = log_std_init
        self.normalise_obs = normalise_obs
        self.chunk = chunk

    def accepts(self, port: str, spec: Spec) -> str | None:
        """None if `spec` fits `port`, otherwise why not and what to do."""
        if port != "obs":
            return None
        for path, tensor in spec.items():
            if _is_image(tensor):
                return f"{_named(path)}{tensor} is an image; use CNNPolicy"
            if tensor.dtype != "float32":
                return f"{_named(path)}{tensor} is not float32; {_way_out(tensor)}"
        return None

    def network(self, environment: EnvironmentProgram) -> Any:
        from ebrl.stages.policies.mlp import MLPNetwork

        return MLPNetwork(self, environment)


class CNNPolicy(Policy):
    """Convolutions over uint8 images (height, width, channels), with float vectors joined after
    them.

    Three convolutions as in Mnih et al. (2015), one fully connected layer of `features` for each
    image, then `hidden` layers for actor and critic over the shared features. Images are scaled to
    [0, 1] inside the network and never stored as floats. The other options are those of
    `MLPPolicy`; `normalise_obs` concerns the vectors.
    """

    def __init__(
        self,
        *,
        channels: tuple[int, int, int] = (32, 64, 64),
        features: int = 256,
        hidden: tuple[int, ...] = (256,),
        activation: Activation = "relu",
        log_std_init: float = 0.0,
        normalise_obs: bool = False,
        chunk: int = 1,
    ) -> None:
        self.channels = tuple(channels)
        self.features = features
        self.hidden = tuple(hidden)
        self.activation = activation
        self.log_std_init = log_std_init
        self.normalise_obs = normalise_obs
        self.chunk = chunk

    def accepts(self, port: str, spec: Spec) -> str | None:
        """None if `spec` fits `port`, otherwise why not and what to do."""
        if port != "obs":
            return None
        if not any(_is_image(tensor) for tensor in spec.values()):
            return "there is no uint8 image of rank 3 among the observations; use MLPPolicy"
        for path, tensor in spec.items():
            if not _is_image(tensor) and tensor.dtype != "float32":
                return (
                    f"{_named(path)}{tensor} is neither a uint8 image nor float32; "
                    f"{_way_out(tensor)}"
                )
            if _is_image(tensor) and any(isinstance(d, int) and d < 36 for d in tensor.shape[:2]):
                return f"{_named(path)}{tensor} is smaller than 36 by 36; use larger images"
        return None

    def network(self, environment: EnvironmentProgram) -> Any:
        from ebrl.stages.policies.cnn import CNNNetwork

        return CNNNetwork(self, environment)


def _is_image(tensor: Tensor) -> bool:
    return tensor.dtype == "uint8" and len(tensor.shape) == 3


def _named(path: str) -> str:
    return f"{path}: " if path else ""


def _way_out(tensor: Tensor) -> str:
    if tensor.dtype == "float64":
        return 'declare the cast, e.g. Gymnasium(id, cast="float32")'
    return "wrap the environment so that it gives float32 vectors (FlattenObservation does)"


def outputs(action: ActionProgram) -> int:
    """Numbers that an actor answers for one decision: logits, or means."""
    single = action.n if action.kind == "discrete" else _size(action.shape)
    return single * action.chunk


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size
