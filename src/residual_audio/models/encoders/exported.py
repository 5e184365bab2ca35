"""A file that ``residual-audio export`` wrote: a graph with its preprocessing and units, run by ONNX Runtime or OpenVINO.

It embeds clips and texts, and gives the recorded granularities of ``extract``. There is no network to reach into: what needs one (ablation,
adaptation, other granularities) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ...audio import MelSpec, Preprocessing
from ...decomposition.direct import Norm
from ...decomposition.joint import JointWeights
from ...images import ImagePreprocessing
from ...options import OptionError
from ...spectra import Moments
from ...units import UnitTable
from ..encoder import BlockSite, Encoder, EncoderError, StageSite
from ..engines import Graph, onnx, openvino
from ..files import file_digest
from ..loading import Loading
from ..readout import Change, Readout
from ..registry import ENCODERS, EncoderKind, KnownModel
from ..wording import Wording

ENGINES: dict[str, Any] = {onnx.SUFFIX: onnx, openvino.SUFFIX: openvino}
JOINT, POOLED, SECOND = "embedding.joint", "embedding.pooled", "moments.second"
NO_NETWORK = "is an exported file, without a network to look into or to change; use the checkpoint that it was made from"


class NoNetwork(nn.Module):
    """Takes the place of an encoder's module; whoever reaches into it is told what there is instead."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def refuse(self) -> NoReturn:
        raise EncoderError(f"{self.name} {NO_NETWORK}")

    def get_submodule(self, target: str) -> nn.Module:
        self.refuse()

    def forward(self, *inputs: Tensor) -> Tensor:
        self.refuse()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoNetwork:
        self.refuse()


@dataclass(frozen=True, kw_only=True)
class KeptReadout(Readout):
    """The end of an encoder of which only the projection's weights are known."""

    weights: JointWeights | None
    refuse: Callable[..., NoReturn]

    def joint_weights(self) -> JointWeights | None:
        return self.weights

    def read(self, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip d"]:
        self.refuse()

    @contextmanager
    def changed(self, encoder: Encoder, change: Change) -> Iterator[None]:
        self.refuse()
        yield

    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        self.refuse()


def policy_of(sheet: dict[str, Any]) -> Preprocessing | ImagePreprocessing:
    """The preprocessing that a description holds; its hash must be the one that it was exported with."""
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in sheet["policy"].items()}
    if sheet["media"] == "sounds":
        given["mel"] = MelSpec(**given["mel"])
    policy: Preprocessing | ImagePreprocessing = (Preprocessing if sheet["media"] == "sounds" else ImagePreprocessing)(**given)
    if policy.hash != sheet["policy_hash"]:
        raise ValueError(f"its preprocessing has the hash {policy.hash}, and was exported as {sheet['policy_hash']}")
    return policy


def tupled(value: Any) -> Any:
    """Lists, as JSON has them, back as tuples."""
    return tuple(tupled(v) for v in value) if isinstance(value, list) else value


class ExportedEncoder(Encoder):
    """Around a graph and its description; ``text`` opens the text side at the first text."""

    module: NoNetwork

    def __init__(
        self, name: str, sheet: dict[str, Any], graph: Graph, text: Callable[[], tuple[dict[str, Any], Graph]] | None, revision: str = ""
    ) -> None:
        self.name, self.revision, self.sheet, self.graph, self._text = name, revision, sheet, graph, text
        self.module = NoNetwork(name)
        try:
            self.policy = policy_of(sheet)
            self.units = UnitTable(**{k: tupled(v) for k, v in sheet["units"].items()})
            self.sites = tuple(BlockSite(**site) for site in sheet["sites"])
            self.stages = tuple(StageSite(**{k: tupled(v) for k, v in stage.items()}) for stage in sheet["stages"])
            self.strips, self.dim, self.logit_scale = int(sheet["strips"]), int(sheet["dim"]), float(sheet["logit_scale"])
            self.precision = str(sheet["precision"])
            self.replays = tuple(str(g) for g in sheet["recorded"])
            self.wording = None if text is None else Wording(**sheet["text"]["wording"])
            self._readout = KeptReadout(norm="", weights=self._joint(), refuse=self.module.refuse)
            filters = graph.kept.get("filters")
            self.filters = None if filters is None else torch.from_numpy(filters)
            self._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, EncoderError):
                raise
            raise EncoderError(f"{name}: its description makes no sense ({error}); export the model again") from error

    def _check(self) -> None:
        """The graph has what the description says."""
        heads = (None, sum(map(sum, self.units.heads)), self.units.d_head[0])
        for output, shape in {JOINT: (None, self.dim), "head": heads}.items():
            found = self.graph.outputs.get(output, shape if output == "head" and "head" not in (self.replays or ()) else ())
            if len(found) != len(shape) or any(a is not None and b is not None and a != b for a, b in zip(found, shape, strict=True)):
                raise ValueError(f"its output {output} is {found}, and its description says {shape}")
        if (channels := self.graph.inputs["features"][1]) != (3 if isinstance(self.policy, ImagePreprocessing) else 1):
            raise ValueError(f"it takes features of {channels} channels")
        if [site.key for site in self.sites] != list(self.units.blocks) or len(self.stages) != len(self.units.heads):
            raise ValueError("its sites are not those of its units")
        for site in self.sites:
            if self._projection(site)["weight"].shape != (self.units.d_model[site.stage], site.heads * self.units.d_head[site.stage]):
                raise ValueError(f"the projection of S{site.stage}B{site.block} is of another shape than its units say")

    def _projection(self, site: BlockSite) -> dict[str, np.ndarray]:
        prefix = f"projection.{site.stage}.{site.block}."
        return {part: self.graph.kept[prefix + part] for part in ("weight", "bias")}

    def _joint(self) -> JointWeights | None:
        kept = {k.removeprefix("joint."): torch.from_numpy(v) for k, v in self.graph.kept.items() if k.startswith("joint.")}
        if not kept:
            return None
        norm = Norm(kept["norm.weight"], kept["norm.bias"], float(self.sheet["joint_eps"])) if "norm.weight" in kept else None
        return JointWeights(kept["first"], kept["second"], kept.get("first_bias"), kept.get("second_bias"), norm)

    @property
    def readout(self) -> Readout:
        return self._readout

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def linear(self, name: str) -> nn.Linear:
        """An attention's output projection, whose weights the file keeps for runs."""
        site = next((s for s in self.sites if s.projection == name), None)
        if site is None:
            self.module.refuse()
        weights = {k: torch.from_numpy(v) for k, v in self._projection(site).items()}
        layer = nn.Linear(weights["weight"].shape[1], weights["weight"].shape[0])
        layer.load_state_dict(weights)
        return layer

    def layer_norm(self, name: str) -> nn.LayerNorm:
        self.module.refuse()

    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip token width"]:
        self.module.refuse()

    def _run(self, graph: Graph, feeds: dict[str, Tensor], wanted: Sequence[str]) -> list[Tensor]:
        try:
            made = graph.run({k: v.detach().contiguous().numpy() for k, v in feeds.items()}, wanted)
        except Exception as error:  # each library raises its own
            raise EncoderError(f"{self.name}: its graph does not run on this input ({str(error).strip().splitlines()[0]})") from error
        return [torch.from_numpy(array) for array in made]

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        return self._run(self.graph, {"features": features}, [JOINT])[0]

    def replay(self, features: Float[Tensor, "clip _ _ _"], wanted: Collection[str]) -> tuple[dict[str, Tensor], Moments | None]:
        """The names of outputs begin with the granularity that they belong to."""
        needed = {*wanted, *(("head",) if "moments" in wanted else ())}
        names = [name for name in self.graph.outputs if name.partition(".")[0] in needed]
        arrays = dict(zip(names, self._run(self.graph, {"features": features}, names), strict=True))
        arrays.setdefault(POOLED, arrays[JOINT])
        moments = self._moments(arrays["head"], arrays.pop(SECOND)) if "moments" in wanted else None
        return arrays, moments

    def _moments(self, heads: Float[Tensor, "clip head d"], second: Float[Tensor, "clip head d d"]) -> Moments:
        """Over all tokens: a clip's sums come from the graph, the sums over clips are in float64."""
        counts = [(rows * columns) for site in self.sites for rows, columns in [self.stages[site.stage].grid] for _ in range(site.heads)]
        tokens = torch.tensor(counts)
        total = (heads.double() * tokens[:, None]).sum(0)
        return Moments(tokens * heads.shape[0], total, second.double().sum(0))

    @cached_property
    def _text_side(self) -> tuple[dict[str, Any], Graph]:
        if self._text is None:
            raise EncoderError(f"{self.name} has no text side; classify with class centroids instead of prompts (--classifier centroids)")
        return self._text()

    @cached_property
    def tokenizer(self) -> Any:
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast

        sheet, _ = self._text_side
        try:
            own = Tokenizer.from_str(sheet["tokenizer"])
        except Exception as error:  # the library raises nothing narrower
            raise EncoderError(f"{self.name}: the tokenizer of its text side cannot be read ({error}); export the model again") from error
        made = PreTrainedTokenizerFast(tokenizer_object=own, pad_token=sheet["pad_token"], padding_side=sheet["padding_side"])
        made.model_max_length = self.wording.length or made.model_max_length if self.wording else made.model_max_length
        return made

    def encode_tokens(self, ids: Int[Tensor, "text token"], mask: Int[Tensor, "text token"]) -> Float[Tensor, "text d"]:
        return self._run(self._text_side[1], {"ids": ids, "mask": mask}, ["embedding"])[0]

    def write(self, folder: Path) -> Path:
        self.module.refuse()


def beside(path: Path) -> Path:
    """Where the text side of an exported model lies."""
    return path.with_name(f"{path.stem}.text{path.suffix}")


def open_exported(source: str, device: str | torch.device, options: Loading) -> Encoder:
    path = Path(source).expanduser()
    if not path.exists():
        raise EncoderError(f"{path}: no such file; `residual-audio export MODEL --out {path}` writes one")
    if torch.device(device).type != "cpu":
        raise EncoderError(f"{source}: exported files run on the CPU; leave --device out, or use the checkpoint itself")
    engine = ENGINES[path.suffix]
    sheet, graph = engine.read(path, "model")
    if sheet.get("precision") == "bf16" and not openvino.has_bf16():
        raise EncoderError(f"{source}: was exported for bf16, which this CPU does not multiply; export it with --precision float32")

    def text() -> tuple[dict[str, Any], Graph]:
        there = beside(path)
        if not there.exists():
            raise EncoderError(f"{source}: its text side, {there.name}, is not beside it; copy it there, or classify without texts")
        if file_digest(there) != sheet["text"]["digest"]:
            raise EncoderError(f"{there}: is not the text side that {path.name} was exported with; export both again")
        found: tuple[dict[str, Any], Graph] = engine.read(there, "text side")
        return found

    encoder = ExportedEncoder(source, sheet, graph, text if sheet.get("text") else None, file_digest(path))
    if isinstance(encoder.policy, ImagePreprocessing) and (options.crop or options.pad):
        raise OptionError(f"--crop, --pad: {source} takes images, which have no length; leave them out")
    return encoder


ENCODERS.add(
    EncoderKind(
        "exported",
        open_exported,
        suffixes=tuple(ENGINES),
        own_precision=True,
        known=(
            KnownModel("FILE.onnx, FILE.xml", "what `residual-audio export` wrote, for ONNX Runtime or OpenVINO", "extra onnx or openvino"),
        ),
        order=90,
    )
)
