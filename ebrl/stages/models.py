"""What vision-language-action models cost by arithmetic: parameters, tokens, passes.

A dense layer costs 2 FLOP a parameter and token forwards, 4 backwards (Kaplan et al., 2020), and 2
more where checkpointing computes it again. Invariant: no number without its source.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """`parameters` that see `tokens` (plus those of each action in the chunk), `repeats` times."""

    parameters: float
    tokens: float
    tokens_per_action: float = 0.0
    repeats: int = 1  # decoding or denoising steps of one answer
    training_repeats: int = 1  # of them, in a training pass
    backward: float = 0.0  # cost of the backward pass in forward passes; 0 where it is frozen

    def flops(self, chunk: int) -> float:
        """Of one forward pass over one decision."""
        return 2 * self.parameters * (self.tokens + self.tokens_per_action * chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model. `launch_s` is the fixed cost of one answer: kernels started, Python between them."""

    passes: tuple[Pass, ...]
    trained: float  # parameters that an update changes
    launch_s: float
    activation_bytes: float  # per decision of a batch, while answering
    training_activation_bytes: float  # per decision of a micro-batch, while training
    source: str
    training_source: str

    @property
    def parameters(self) -> float:
        return sum(each.parameters for each in self.passes)

    @property
    def weight_reads(self) -> float:
        """How often one answer reads the weights, on average over them."""
        read = sum(each.parameters * each.repeats for each in self.passes)
        return read / self.parameters

    def forward_flops(self, chunk: int) -> float:
        """One answer for one environment."""
        return sum(each.flops(chunk) * each.repeats for each in self.passes)

    def scoring_flops(self, chunk: int) -> float:
        """Forwards over one decision, to know its log-probability."""
        return sum(each.flops(chunk) * each.training_repeats for each in self.passes)

    def training_flops(self, chunk: int) -> float:
        """Forwards and backwards over one decision."""
        return sum(
            each.flops(chunk) * each.training_repeats * (1 + each.backward) for each in self.passes
        )


# A 224-pixel image is 16 × 16 patches in SigLIP and DINOv2 with patches of 14 pixels: 256 tokens.
IMAGE = 256
# PaliGemma as π0 uses it: SigLIP So400m and Gemma 2B, of whose 2.5e9 parameters 0.5e9 embed tokens
# and multiply nothing; the action expert has 0.3e9 (Black et al., 2024; arXiv 2510.26742).
SIGLIP, GEMMA, EXPERT = 0.4e9, 2.5e9, 0.3e9
GEMMA_ACTIVE = 2.0 / 2.5

# 7.5e9: Llama 2 7B, DINOv2-L and SigLIP So400m (Kim et al., 2024). A pass takes 25 ms to launch,
# eager: what remains of the 0.240 s of OpenVLA's seven passes on an A100 (arXiv 2502.19645).
_OPENVLA, _OPENVLA_LAUNCH_S = 7.5e9, 0.025
# LoRA of rank 32, with gradient checkpointing (RLinf maniskill_ppo_openvlaoft.yaml): gradients flow
# back through frozen weights (one forward's worth), and forwards again (one more): 6 FLOP in all.
_LORA_BACKWARD, _LORA_TRAINED = 2.0, 0.1e9
_LORA_SOURCE = "LoRA of rank 32 with checkpointing, 6 FLOP a parameter and token"


def _pi(images: int, text: int, steps: int, source: str) -> Model:
    """π0 and its like: images and text once through PaliGemma, then denoising by the action expert.

    Training as openpi does it for reinforcement learning: PaliGemma frozen, one denoising step.
    """
    return Model(
        passes=(
            Pass(parameters=SIGLIP, tokens=images * IMAGE),
            Pass(parameters=GEMMA, tokens=(images * IMAGE + text) * GEMMA_ACTIVE),
            Pass(parameters=EXPERT, tokens=1, tokens_per_action=1, repeats=steps, backward=2.0),
        ),
        trained=EXPERT,
        launch_s=0.020,  # what remains of π0's 75 ms on an RTX 4090 (openpi issue 318)
        activation_bytes=0.1e9,  # assumed: 18 layers of keys, values and one layer's activations
        training_activation_bytes=0.1e9,  # assumed
        source=source,
        training_source="PaliGemma frozen, action expert trained, 6 FLOP a parameter and token",
    )


MODELS: dict[str, Model] = {
    # One image, a prompt of 30 tokens (RLinf max_prompt_length), 7 tokens of an action one by one.
    "openvla": Model(
        passes=(
            Pass(
                parameters=_OPENVLA,
                tokens=(IMAGE + 30) / 7,
                tokens_per_action=1,
                repeats=7,
                training_repeats=7,
                backward=_LORA_BACKWARD,
            ),
        ),
        trained=_LORA_TRAINED,
        launch_s=7 * _OPENVLA_LAUNCH_S,
        activation_bytes=0.2e9,  # keys, values: 32 × 2 × 4096 × 2 bytes × 293 tokens = 0.15e9
        training_activation_bytes=0.2e9,  # assumed
        source="OpenVLA: 7.5e9 parameters, 256 image and 30 text tokens, 7 decoding steps",
        training_source=_LORA_SOURCE,
    ),
    # All actions of the chunk in one pass (Kim et al., 2025: 0.073 s on an A100 with a chunk of 8).
    "openvla-oft": Model(
        passes=(
            Pass(
                parameters=_OPENVLA, tokens=IMAGE + 30, tokens_per_action=7, backward=_LORA_BACKWARD
            ),
        ),
        trained=_LORA_TRAINED,
        launch_s=_OPENVLA_LAUNCH_S,
        activation_bytes=0.2e9,
        training_activation_bytes=0.2e9,  # assumed: 32 checkpoints and one layer, and the logits
        source="OpenVLA-OFT: 7.5e9 parameters, 256 image and 30 text tokens, 7 an action, one pass",
        training_source=_LORA_SOURCE,
    ),
    # Meta-World: one image and 5 denoising steps (RLinf metaworld_50_ppo_openpi.yaml), 48 tokens of
    # text (openpi, π0's max_token_len).
    "pi0": _pi(
        1, 48, 5, "π0: SigLIP 0.4e9, Gemma 2.5e9, expert 0.3e9; 1 image, 48 text tokens, 5 steps"
    ),
    # LIBERO: openpi feeds three image slots, the third one masked, and up to 200 tokens of text and
    # state; 10 denoising steps are its default.
    "pi05": _pi(3, 200, 10, "π0.5: as π0; 3 image slots, 200 text tokens, 10 denoising steps"),
    # GR00T N1.5 to N1.7: about 3e9 parameters. Assumed: 0.8e9 of them are the action head (a
    # diffusion transformer, 4 steps); three images at 64 tokens each after pixel shuffling; 50 of
    # text. Launching dominates: 0.156 s eager on an H100 (NVIDIA/Isaac-GR00T, N1.7).
    "gr00t": Model(
        passes=(
            Pass(parameters=2.2e9, tokens=3 * 64 + 50),
            Pass(parameters=0.8e9, tokens=40, tokens_per_action=1, repeats=4, backward=2.0),
        ),
        trained=0.8e9,
        launch_s=0.15,
        activation_bytes=0.05e9,  # assumed
        training_activation_bytes=0.1e9,  # assumed
        source="GR00T: 2.2e9 + 0.8e9 parameters, 242 tokens, 4 denoising steps",
        training_source="backbone frozen, action head trained, 6 FLOP a parameter and token",
    ),
}
