"""What gains are compared with: methods that change weights."""

from .finetune import finetune_learner
from .lora import lora_learner

__all__ = ["finetune_learner", "lora_learner"]
