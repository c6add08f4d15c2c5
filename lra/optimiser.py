"""AdamW with the schedules of the LRA release."""

import jax.numpy as jnp
import optax

from lra.config import Schedule, TrainConfig


def learning_rate(train: TrainConfig) -> optax.Schedule:
    """Step to rate: linear warm-up to `learning_rate`, then

    `rsqrt`: learning_rate / sqrt(max(step, warmup_steps)), also during the warm-up, as the release has it;
    `cosine`: half a cosine down to 0 at `steps`.
    """
    warmup = max(train.warmup_steps, 1)

    def rate(step):
        rise = jnp.minimum(1.0, (step + 1) / warmup)
        if train.schedule is Schedule.rsqrt:
            return train.learning_rate * rise / jnp.sqrt(jnp.maximum(step, warmup))
        progress = jnp.clip((step - warmup) / max(train.steps - warmup, 1), 0, 1)
        return train.learning_rate * rise * 0.5 * (1 + jnp.cos(jnp.pi * progress))

    return rate


def build_optimiser(train: TrainConfig) -> optax.GradientTransformation:
    """Adam with beta 0.9 and 0.98, epsilon 1e-9 and decoupled weight decay, after clipping by `clip_norm` if given."""
    adamw = optax.adamw(learning_rate(train), b1=0.9, b2=0.98, eps=1e-9, weight_decay=train.weight_decay)
    return adamw if train.clip_norm is None else optax.chain(optax.clip_by_global_norm(train.clip_norm), adamw)
