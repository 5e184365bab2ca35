"""Microsoft's CLAP 2023 from its ``.pth``, mapped onto transformers' HTS-AT and GPT-2.

Widths, depths, heads, window and grid are inferred from the state dict. The front end is the true one: audio at
44.1 kHz, but a filterbank for 32 kHz (50–14000 Hz, hop 320), taken from the checkpoint itself when it is there.
"""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import ClapAudioConfig, GPT2Config, GPT2Model, GPT2Tokenizer
from transformers.models.clap.modeling_clap import ClapAudioModel

from ...audio import MelSpec, Preprocessing
from ..encoder import Encoder, EncoderError
from ..files import file_digest, hub_file, open_tokenizer, split_revision
from ..htsat import HtsatEncoder, htsat_sites, htsat_stages, htsat_units
from ..loading import Loading
from ..original import State, below, infer_audio_config, load_exactly, read_checkpoint, to_transformers
from ..readout import ResidualReadout
from ..registry import ENCODERS, HUB, EncoderKind, KnownModel
from ..weights import check_count, check_finite, check_numbers
from ..wording import Wording

NAME, REPO, FILE = "msclap-2023", "microsoft/msclap", "CLAP_weights_2023.pth"
AUDIO, TEXT = "audio_encoder.base.htsat.", "caption_encoder.base."
MEL_FILTERS = AUDIO + "logmel_extractor.melW"
# The tokenizer that the checkpoint was trained with, at one commit of its repository.
GPT2 = "gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"
SAMPLE_RATE, SECONDS, TEXT_LENGTH = 44_100, 7, 77
GPT2_HEAD_WIDTH = 64
MEL = MelSpec(n_fft=1024, hop=320, mels=64, filter_rate=32_000, f_min=50.0, f_max=14_000.0)


class Projection(nn.Module):
    r"""Microsoft's projection into the joint space: $\mathrm{LN}(e_1 + W_2\,\mathrm{GELU}(e_1)),\ e_1 = W_1 x$."""

    def __init__(self, width: int, joint: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, joint, bias=False)
        self.linear2 = nn.Linear(joint, joint, bias=False)
        self.layer_norm = nn.LayerNorm(joint)

    def forward(self, x: Float[Tensor, "row width"]) -> Float[Tensor, "row joint"]:
        first = self.linear1(x)
        embedding: Tensor = self.layer_norm(first + self.linear2(nn.functional.gelu(first)))
        return embedding


class MsClapModel(nn.Module):
    """The four parts of the checkpoint under the names of transformers' ClapModel."""

    def __init__(self, audio: ClapAudioConfig, text: GPT2Config, joint: int) -> None:
        super().__init__()
        self.audio_model = ClapAudioModel(audio)
        self.audio_projection = Projection(audio.hidden_size, joint)
        self.text_model = GPT2Model(text)
        self.text_projection = Projection(text.n_embd, joint)
        self.logit_scale = nn.Parameter(torch.zeros(()))


def infer_text_config(gpt2: State) -> GPT2Config:
    tokens, width = gpt2["wte.weight"].shape
    blocks = 1 + max(int(k.split(".")[1]) for k in gpt2 if k.startswith("h."))
    return GPT2Config(
        vocab_size=tokens,
        n_positions=gpt2["wpe.weight"].shape[0],
        n_embd=width,
        n_layer=blocks,
        n_head=max(1, width // GPT2_HEAD_WIDTH),
        bos_token_id=tokens - 1,
        eos_token_id=tokens - 1,
    )


def read_state(path: Path) -> State:
    """The checkpoint's state dict; refuses what is not Microsoft's HTS-AT CLAP, and says what it is instead."""
    state = read_checkpoint(path, "model")
    if not any(key.startswith(AUDIO) for key in state):
        if any(key.startswith("audio_encoder.base.conv_block") for key in state):
            raise EncoderError(
                f"{path}: this is Microsoft CLAP 2022, whose audio encoder is a CNN (Cnn14) without attention heads; "
                f"use {FILE}, whose audio encoder is HTS-AT"
            )
        raise EncoderError(f"{path}: no keys under {AUDIO!r}; expected Microsoft's {FILE}")
    return state


class MsClapEncoder(HtsatEncoder):
    """Microsoft CLAP 2023. The GPT-2 tokenizer is looked for beside the checkpoint, then on the hub, at the first text."""

    module: MsClapModel
    wording = Wording(" <|endoftext|>", TEXT_LENGTH, padded=True)

    def __init__(self, path: str | Path, name: str | None = None, device: str | torch.device = "cpu", revision: str | None = None) -> None:
        self.path = Path(path)
        self.name = name or str(path)
        state = read_state(self.path)
        htsat, gpt2 = below(state, AUDIO), below(state, TEXT)
        try:
            joint, scale = state["audio_encoder.projection.linear1.weight"].shape[0], state["logit_scale"].reshape(())
            audio, text = infer_audio_config(htsat), infer_text_config(gpt2)
        except (KeyError, ValueError, IndexError, RuntimeError) as error:
            raise EncoderError(f"{self.path}: a tensor is missing or of another shape than in {FILE} ({error})") from error
        for config in (audio, text):
            check_numbers(config.to_dict(), self.path)
        check_count(lambda: MsClapModel(audio, text, joint), self.path.stat().st_size, self.path)
        module = MsClapModel(audio, text, joint)
        load_exactly(module.audio_model, to_transformers(htsat), self.path)
        load_exactly(module.text_model, {k: v for k, v in gpt2.items() if not k.endswith((".attn.bias", ".attn.masked_bias"))}, self.path)
        load_exactly(module.audio_projection, below(state, "audio_encoder.projection."), self.path)
        load_exactly(module.text_projection, below(state, "caption_encoder.projection."), self.path)
        with torch.no_grad():
            module.logit_scale.copy_(scale)
        check_finite(module, self.path)
        self.module = module.eval().to(device)
        self.policy = Preprocessing(SAMPLE_RATE, SAMPLE_RATE * SECONDS, MEL, pad="repeat")
        self.filters = None if MEL_FILTERS not in state else state[MEL_FILTERS].clone()
        self.revision = revision or file_digest(self.path)
        self.units = htsat_units(module.audio_model)
        self.sites = htsat_sites(module.audio_model, "audio_model")
        self.stages = htsat_stages(module.audio_model, "audio_model")
        self.strips = module.audio_model.audio_encoder.freq_ratio
        self.readout = ResidualReadout(
            norm="audio_model.audio_encoder.norm",
            first="audio_projection.linear1",
            second="audio_projection.linear2",
            joint_norm="audio_projection.layer_norm",
        )
        self.dim = joint
        self.logit_scale = module.logit_scale.exp().item()

    @cached_property
    def tokenizer(self) -> GPT2Tokenizer:
        beside = self.path.parent
        source = str(beside) if any((beside / f).exists() for f in ("tokenizer.json", "vocab.json")) else GPT2
        tokenizer: GPT2Tokenizer = open_tokenizer(GPT2Tokenizer, source, f"put gpt2's tokenizer.json beside {self.path}")
        tokenizer.pad_token = "!"
        return tokenizer

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        embedding: Tensor = self.module.audio_projection(self.module.audio_model(input_features=features).pooler_output)
        return embedding

    def encode_tokens(self, ids: Int[Tensor, "text token"], mask: Int[Tensor, "text token"]) -> Float[Tensor, "text d"]:
        """The state at the last token that is not padding, as Microsoft counts it: (ids ≠ 0) − 1."""
        states = self.module.text_model(input_ids=ids, attention_mask=mask).last_hidden_state
        last = ids.ne(0).sum(-1) - 1
        embedding: Tensor = self.module.text_projection(states[torch.arange(ids.shape[0], device=ids.device), last])
        return embedding

    def write(self, folder: Path) -> Path:
        """``folder/<name>.pth`` with exactly the keys and shapes of the file that was opened, in Microsoft's layout."""
        loaded = torch.load(self.path, map_location="cpu", weights_only=True)
        state = loaded.get("model", loaded)
        prefix = "module." if any(key.startswith("module.") for key in state) else ""
        for part, theirs in (("audio_projection", "audio_encoder.projection."), ("text_projection", "caption_encoder.projection.")):
            for key, value in self.module.get_submodule(part).state_dict().items():
                state[prefix + theirs + key] = value.cpu().to(state[prefix + theirs + key].dtype)
        ours = self.module.audio_model.state_dict()
        for key in below(state, prefix + AUDIO):
            # The mapping of one key at a time, on a marker, gives the names it goes to.
            names = list(to_transformers({key: torch.zeros(3)}))
            if names:
                old = state[prefix + AUDIO + key]
                state[prefix + AUDIO + key] = (
                    torch.cat([ours[n].cpu() for n in names]).to(old.dtype) if len(names) > 1 else ours[names[0]].cpu().to(old.dtype)
                )
        target = folder / self.path.name
        torch.save(loaded, target)
        for name in ("tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"):
            if (self.path.parent / name).exists():
                shutil.copyfile(self.path.parent / name, folder / name)
        return target


def open_msclap(source: str, device: str | torch.device, options: Loading) -> Encoder:
    """By name from the hub, or a file."""
    path = Path(source).expanduser()
    if path.suffix not in SUFFIXES:
        path, revision = hub_file(REPO, FILE, split_revision(source)[1])
        encoder = MsClapEncoder(path, NAME, device, revision)
        encoder.repository = REPO
        return encoder
    if not path.exists():
        raise EncoderError(f"{path}: no such file; download {FILE} from the hub repository {REPO}, or use the name {NAME}")
    return MsClapEncoder(path, source, device)


SUFFIXES = (".pth", ".ckpt")
ENCODERS.add(
    EncoderKind(
        "msclap",
        open_msclap,
        suffixes=SUFFIXES,
        own_names=(NAME, "msclap", REPO),
        known=(KnownModel(NAME, "Microsoft CLAP 2023, 7 s, GPT-2 text side", f"{HUB}, and gpt2's tokenizer for texts"),),
        order=20,
    )
)
