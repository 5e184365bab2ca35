"""Encoders without patch merging or a text side, through transformers: Whisper's encoder and AST.

Their blocks all have one resolution, so they form a single stage. Class centroids take the place of prompts.
"""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import ASTFeatureExtractor, ASTModel, WhisperFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoder as WhisperModel

from ..audio import MelSpec, Preprocessing
from ..units import UnitTable
from .clap import COMPANIONS, local_revision
from .encoder import BlockSite, Encoder, EncoderError, ReadoutSite, StageSite, copy_companions

# Cosines of encoders that were never trained to match texts have no scale of their own; this is CLIP's initial one.
NEUTRAL_LOGIT_SCALE = 1 / 0.07
CONV_STRIDE = 2


def one_stage(blocks: int, heads: int, width: int) -> UnitTable:
    return UnitTable(heads=((heads,) * blocks,), d_head=(width // heads,), d_model=(width,))


def isotropic_site(block: int, heads: int, attention: str, projection: str, mlp: str, entry: str, blocks: str = "layers") -> BlockSite:
    path = f"{blocks}.{block}"
    return BlockSite(0, block, heads, path, f"{path}.{attention}", f"{path}.{attention}.{projection}", f"{path}.{mlp}", f"{path}.{entry}")


class IsotropicEncoder(Encoder):
    """What encoders of one resolution share: how a block is called."""

    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip token width"]:
        return self.module.get_submodule(site.module)(stream, None)


class WhisperEncoder(IsotropicEncoder):
    """Whisper's encoder on windows of ``seconds``; the embedding is the mean of the last states.

    Whisper was trained on 30 s. A shorter window uses the first part of its position table, which costs a
    fraction of padding every clip to 30 s with silence.
    """

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu", seconds: float = 10.0) -> None:
        self.source, self.name = str(source), name or str(source)
        module = WhisperModel.from_pretrained(str(source), dtype=torch.float32)
        extractor = WhisperFeatureExtractor.from_pretrained(str(source))
        rate, hop = extractor.sampling_rate, extractor.hop_length
        positions = round(seconds * rate / hop / CONV_STRIDE)
        if not 0 < positions <= module.config.max_source_positions:
            longest = module.config.max_source_positions * CONV_STRIDE * hop / rate
            raise EncoderError(f"{self.name}: a window of {seconds} s does not fit; choose more than 0 and at most {longest:g} s")
        keep_positions(module, positions)
        self.module = module.eval().to(device)
        self.policy = Preprocessing(
            sample_rate=rate,
            samples=positions * CONV_STRIDE * hop,
            mel=MelSpec(
                n_fft=extractor.n_fft, hop=hop, mels=extractor.feature_size, filter_rate=rate, f_min=0.0, f_max=8000.0, log="whisper"
            ),
        )
        self.revision = getattr(module.config, "_commit_hash", None) or local_revision(Path(source))
        self.dim, self.logit_scale = module.config.d_model, NEUTRAL_LOGIT_SCALE
        heads = module.config.encoder_attention_heads
        self.units = one_stage(len(module.layers), heads, self.dim)
        self.sites = tuple(
            isotropic_site(b, heads, "self_attn", "out_proj", "fc2", "self_attn_layer_norm") for b in range(len(module.layers))
        )
        self.stages = (StageSite((1, positions)),)
        self.readout = ReadoutSite("layer_norm")

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        return self.module(features[:, 0].transpose(1, 2)).last_hidden_state.mean(1)

    def save(self, folder: Path) -> Path:
        """With the whole position table of the checkpoint, however short the window is here."""
        whole = WhisperModel.from_pretrained(self.source, dtype=torch.float32)
        whole.load_state_dict({k: v for k, v in self.module.state_dict().items() if not k.startswith("embed_positions.")}, strict=False)
        whole.save_pretrained(folder)
        copy_companions(self.source, folder, COMPANIONS)
        return folder


def keep_positions(module: WhisperModel, positions: int) -> None:
    """Shorten the encoder's window to its first ``positions`` tokens."""
    weight = module.embed_positions.weight.data[:positions].clone()
    module.embed_positions = nn.Embedding.from_pretrained(weight, freeze=True)
    module.config.max_source_positions = module.max_source_positions = positions


class AstEncoder(IsotropicEncoder):
    """The Audio Spectrogram Transformer; the embedding is the mean of its two summary tokens."""

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        module = ASTModel.from_pretrained(str(source), dtype=torch.float32)
        extractor = ASTFeatureExtractor.from_pretrained(str(source))
        rate, hop, frame = extractor.sampling_rate, 160, 400
        self.module = module.eval().to(device)
        self.policy = Preprocessing(
            sample_rate=rate,
            samples=extractor.max_length * hop,
            mel=MelSpec(
                n_fft=512, frame=frame, hop=hop, mels=extractor.num_mel_bins, filter_rate=rate, f_min=20.0, f_max=rate / 2, scale="kaldi",
                normalised=False, centred=False, preemphasis=0.97, log="kaldi", mean=extractor.mean, std=extractor.std,
                frames=extractor.max_length,
            ),
        )  # fmt: skip
        self.revision = getattr(module.config, "_commit_hash", None) or local_revision(Path(source))
        self.dim, self.logit_scale = module.config.hidden_size, NEUTRAL_LOGIT_SCALE
        heads = module.config.num_attention_heads
        self.units = one_stage(len(module.layers), heads, self.dim)
        self.sites = tuple(isotropic_site(b, heads, "attention", "o_proj", "mlp", "layernorm_before") for b in range(len(module.layers)))
        self.stages = (StageSite((1, module.embeddings.position_embeddings.shape[1])),)
        self.readout = ReadoutSite("layernorm", tokens=(0, 1))

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        return self.module(features[:, 0]).pooler_output

    def save(self, folder: Path) -> Path:
        self.module.save_pretrained(folder)
        copy_companions(self.source, folder, COMPANIONS)
        return folder
