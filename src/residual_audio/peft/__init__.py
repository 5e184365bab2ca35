"""ResiDual as a PEFT tuner. Importing this registers the method ``RESIDUAL``; then PEFT's own functions take it.

from peft import PeftModel, get_peft_model
from residual_audio.peft import ResiDualConfig, fit_axes

model = get_peft_model(clap, ResiDualConfig(form="gains"))
with fit_axes(model):  # principal axes of what the heads write, from unlabelled clips
    model.get_audio_features(**clips)
…  # any training loop
model.save_pretrained("adapter")  # what ra.load_adapter reads, and the reverse
"""

try:
    import peft
except ImportError as error:
    raise ImportError("residual_audio.peft needs peft: pip install 'residual-audio[peft]'") from error

from .config import ResiDualConfig
from .fitting import fit_axes
from .layer import ResiDualLayer
from .model import ResiDualModel
from .register import register

__all__ = ["ResiDualConfig", "ResiDualLayer", "ResiDualModel", "fit_axes"]

register(peft, ResiDualConfig, ResiDualModel)
