"""Small random checkpoints in the exact layouts of the real ones."""

import shutil
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    ASTConfig,
    ASTFeatureExtractor,
    ASTModel,
    BitImageProcessorPil,
    ClapConfig,
    ClapFeatureExtractor,
    ClapModel,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTokenizer,
    Dinov2Config,
    Dinov2Model,
    ViTConfig,
    ViTImageProcessorPil,
    ViTModel,
    WhisperConfig,
    WhisperFeatureExtractor,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from residual_audio.models.encoders.clap import TINY
from tests.helpers import laion_reference, msclap_reference

TEXTS = ["this is the sound of a dog", "a recording of rain on a roof", "church bells! far away"]


def stirred(model: torch.nn.Module, scale: float = 0.1) -> torch.nn.Module:
    """Move every weight and running statistic off its initial value, so that nothing is zero or one by accident."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator) - 20)
            if name.endswith("running_var"):
                buffer.copy_(200 + 50 * torch.rand(buffer.shape, generator=generator))
    return model.eval()


def laion(folder: Path, fused: bool, full_size: bool = False) -> Path:
    """A directory as ``laion/clap-htsat-(un)fused`` has it. ``full_size``: the audio tower has its real width."""
    torch.manual_seed(0)
    width = 96 if full_size else 16
    audio = {
        "patch_embeds_hidden_size": width,
        "hidden_size": 8 * width,
        "projection_dim": 32,
        "enable_fusion": fused,
        "enable_patch_fusion": fused,
    }
    if not full_size:
        audio |= {"depths": [2, 2, 2, 2], "num_attention_heads": [2, 4, 8, 16]}
    text = {"vocab_size": 2000, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
            "max_position_embeddings": 80, "projection_dim": 32}  # fmt: skip
    model = stirred(ClapModel(ClapConfig(text_config=text, audio_config=audio, projection_dim=32)), 0.02 if full_size else 0.1)
    model.save_pretrained(folder)
    ClapFeatureExtractor(truncation="fusion" if fused else "rand_trunc", frequency_min=50 if not fused else 0).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, folder / name)
    return folder


def laion_original(folder: Path, name: str = "630k-audioset-best.pt", depths: tuple[int, ...] = (2, 2, 2, 2)) -> Path:
    """One of LAION's own files with its real keys, and RoBERTa's kind of tokenizer beside it; ``depths`` may be less than the real ones."""
    _, width, fused = laion_reference.LAYOUTS[name]
    torch.save(laion_reference.checkpoint(laion_reference.random_state(list(depths), width, fused, seed=len(name))), folder / name)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / file, folder / file)
    return folder / name


def msclap(folder: Path) -> Path:
    """``CLAP_weights_2023.pth`` with its real keys, and GPT-2's kind of tokenizer beside it."""
    torch.save({"model": msclap_reference.random_state()}, folder / "CLAP_weights_2023.pth")
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(TEXTS, vocab_size=msclap_reference.VOCABULARY - 1, special_tokens=["!"], show_progress=False)
    bpe.add_special_tokens(["<|endoftext|>"])
    bpe.save(str(folder / "tokenizer.json"))
    return folder / "CLAP_weights_2023.pth"


def whisper(folder: Path) -> Path:
    torch.manual_seed(0)
    config = WhisperConfig(
        d_model=32, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=80, max_source_positions=500
    )
    stirred(WhisperEncoder(config), 0.05).save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=80, chunk_length=10).save_pretrained(folder)
    return folder


def ast(folder: Path) -> Path:
    torch.manual_seed(0)
    config = ASTConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, max_length=256)
    stirred(ASTModel(config), 0.05).save_pretrained(folder)
    ASTFeatureExtractor(max_length=256).save_pretrained(folder)
    return folder


IMAGE_SIDE, PATCH = 32, 8
TOWER = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": IMAGE_SIDE, "patch_size": PATCH}


def clip(folder: Path) -> Path:
    """A directory as ``openai/clip-vit-…`` has it, with a tokenizer of its own kind."""
    torch.manual_seed(0)
    # Every byte, alone and at the end of a word, and no merges: a text is its letters.
    letters = sorted(ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate([*letters, *(x + "</w>" for x in letters), "<|startoftext|>", "<|endoftext|>"])}
    tokenizer = CLIPTokenizer(vocab=vocab, merges=[])
    text = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
            "max_position_embeddings": 77, "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}  # fmt: skip
    model = CLIPModel(CLIPConfig(text_config=text, vision_config={**TOWER, "intermediate_size": 64}, projection_dim=24))
    stirred(model, 0.05).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessorPil(size={"shortest_edge": IMAGE_SIDE}, crop_size={"height": IMAGE_SIDE, "width": IMAGE_SIDE}).save_pretrained(folder)
    return folder


def vit(folder: Path, pooler: bool = True) -> Path:
    torch.manual_seed(0)
    model = ViTModel(ViTConfig(**TOWER, intermediate_size=64), add_pooling_layer=pooler)
    stirred(model, 0.05).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": IMAGE_SIDE, "width": IMAGE_SIDE}).save_pretrained(folder)
    return folder


def dinov2(folder: Path, swiglu: bool = False) -> Path:
    """Trained on other images (48 × 48) than it is run on, as the real ones are; LayerScale far from one."""
    torch.manual_seed(0)
    config = Dinov2Config(**{**TOWER, "image_size": 48}, mlp_ratio=2, layerscale_value=0.4, use_swiglu_ffn=swiglu)
    stirred(Dinov2Model(config), 0.1).save_pretrained(folder)
    BitImageProcessorPil(
        size={"shortest_edge": 40}, crop_size={"height": IMAGE_SIDE, "width": IMAGE_SIDE}, image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder)  # fmt: skip
    return folder


def exported(source: Path, folder: Path) -> Path:
    """A checkpoint as a file for ONNX Runtime that gives head outputs and embeddings."""
    from residual_audio import export, load_dataset, load_encoder

    clips = load_dataset("notes").limited(2)
    return export(load_encoder(source), folder / "model.onnx", record=("head", "embedding"), check_clips=clips).path
