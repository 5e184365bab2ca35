"""The protocols behind published tables: each gives rows under the keys that the published figures have.

What differs from how we measure by default is done both ways; :mod:`.rows` says how rows tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from ..ablation import ablate
from ..comparison.sweep import place_of
from ..data import Dataset
from . import rows as made
from .adapted import baselines, sets_of_stages, stage_subsets
from .bench import Bench
from .draws import drawn
from .rows import AS_PUBLISHED, CLOSE, Row, whole

# Published names of the data, and ours; how many clips table 2 drew of those that were not used whole.
DATA = {"ESC-50": "esc50", "TinySOL": "tinysol", "VocalSound": "vocalsound", "IRMAS": "irmas"}
DRAWN = {"VocalSound": 1200}
THOUSAND = 1000
MSCLAP, LAION = "msclap-2023", "laion/clap-htsat-unfused"
STAGE = ["pca_90", "pca_99", "twonn", "participation_ratio", "effective_rank", "evr_1"]
FOUR = ["pca_99", "twonn", "participation_ratio", "evr_1"]
BLOCK = ["pca_99", "twonn", "l_n", "evr_1"]
ABLATED = 100


def stages_and_tests(bench: Bench, names: Sequence[str]) -> list[Row]:
    tables = bench.tables(names[0])
    return made.mean_rows(tables["stages"], names[0], "stage", "stage", STAGE) + made.anova_rows(tables, names[0], STAGE[:-1])


def last_stages(bench: Bench, names: Sequence[str]) -> list[Row]:
    """The last stage on every data set."""
    rows = []
    for name in names:
        draw = partial(Dataset.limited, count=DRAWN[name], seed=bench.seed) if name in DRAWN else None
        stages = bench.tables(name, draw)["stages"]
        rows += made.mean_rows(stages[stages.stage == stages.stage.max()], name, "stage", "stage", [*FOUR[:-1], "l_n"])
    return rows


def blocks(bench: Bench, names: Sequence[str]) -> list[Row]:
    return made.mean_rows(bench.tables(names[0])["blocks"], names[0], "block", "depth", BLOCK)


def stages_of_a_thousand(bench: Bench, names: Sequence[str]) -> list[Row]:
    tables = bench.tables(names[0], partial(drawn, count=THOUSAND, seed=bench.seed))
    return made.mean_rows(tables["stages"], names[0], "stage", "stage", FOUR)


def tests_between_stages(bench: Bench, names: Sequence[str]) -> list[Row]:
    return made.anova_rows(bench.tables(names[0]), names[0], STAGE[1:])


def pairs_of_stages(bench: Bench, names: Sequence[str]) -> list[Row]:
    return made.pair_rows(bench.tables(names[0]), names[0])


def entropy(bench: Bench, names: Sequence[str]) -> list[Row]:
    return made.entropy_rows(bench.tables(names[0])["heads"], names[0])


def similarity(bench: Bench, names: Sequence[str]) -> list[Row]:
    return made.similarity_rows(bench.tables(names[0]), names[0])


def block_ablation(bench: Bench, names: Sequence[str]) -> list[Row]:
    """Each block's attention away: zero as published, its mean as we do by default; the same hundred clips."""
    name, encoder, rows = names[0], bench.encoder, list[Row]()
    few = drawn(bench.datasets[name], ABLATED, bench.seed)
    spectral = bench.tables(name)["blocks"].set_index("depth").entropy
    for protocol in bench.protocols:
        how = "zero" if protocol == AS_PUBLISHED else "mean"
        ablation = ablate(encoder, few, "blocks", how, out=bench.out / place_of(few.name), workers=bench.workers, seed=bench.seed)
        drop = 100 * ablation.table().set_index("depth").accuracy_drop
        rows.append(whole(name, "accuracy", 100 * ablation.accuracy, protocol))
        rows += [{**whole(name, "accuracy_drop", value, protocol), "level": "block", "index": str(d)} for d, value in drop.items()]
        rows.append(whole(name, "entropy_drop_pearson", float(spectral.corr(drop)) if drop.std() > 0 else np.nan, protocol))
    return rows


@dataclass(frozen=True)
class Target:
    """A published table (or figure, by its numbers) and what makes it. ``data``: published names; ``note``: what to know about it.

    ``differs``: the choices of our closest protocol that are not theirs, or not known to be; without any it is called ``as they did``.
    """

    name: str
    source: str
    table: str
    model: str
    data: tuple[str, ...]
    what: str
    rows: Callable[[Bench, Sequence[str]], list[Row]]
    note: str = ""
    differs: tuple[str, ...] = ()

    def run(self, bench: Bench, names: Sequence[str]) -> pd.DataFrame:
        """Our figures: source, table, dataset, level, index, measure, protocol, ours, std."""
        columns = ["source", "table", "dataset", "level", "index", "measure", "protocol", "ours", "std"]
        table = pd.DataFrame(self.rows(bench, names), columns=columns).astype({"ours": float, "std": float})
        table = table.assign(source=table.source.fillna(self.source), table=self.table)
        return table.assign(protocol=table.protocol.replace(AS_PUBLISHED, CLOSE)) if self.differs else table


SWAPPED = "its ESC-50 and TinySOL columns seem to be swapped: the TinySOL one equals table 1"
TESTS = "the report's checklist names LAION's checkpoint, its text Microsoft's, whose table of heads gives table 1 exactly"
LEAKS = (
    "random folds split recordings, and the published gains were stopped on the clips they were trained on, as are ours in that column; "
    "our own protocol never does so. "
    "An earlier run in the same repository contradicts the report: −1.05 points on ESC-50, +2.0 on TinySOL; of which stages is not said"
)
DOUBLED = "the published gains were trained in a block that added its shortcut and ran its MLP twice"
NOTES = ("the published version has 2,913 notes, the report 2,071: which were used is not said",)
WHICH = "which {} clips were drawn is not said (ours: evenly over classes and folds, seed 42)"
KFOLD = (
    "batch size (ours: 64), the axes' level (ours: tokens), what patience watches (ours: accuracy, then loss, on the training clips), "
    "the order of the clips, and the seed (ours: 42) are not said",
)
STAGES = (
    "attached as the formula says, not in the doubled block",
    "axes of a fifth of the training clips, the best epoch on another fifth (theirs: not said)",
    "prompts (ours: LAION's), batch size (ours: 64) and seed are not said",
)
FIG9 = "the figure has no numbers: only its order is published (findings)"
TARGETS = {
    target.name: target
    for target in (
        Target("seed1-1", "seed1", "1", MSCLAP, ("ESC-50",), "dimension by stage, and ANOVA between stages", stages_and_tests),
        Target("seed1-2", "seed1", "2", MSCLAP, ("TinySOL", "ESC-50", "VocalSound"), "last stage across data sets", last_stages, SWAPPED,
               (*NOTES, WHICH.format("1,200 VocalSound"))),
        Target("seed1-fig2", "seed1", "fig2", MSCLAP, ("ESC-50",), "dimension by block", blocks),
        Target("seed1-3", "seed1", "3", MSCLAP, ("TinySOL",), "dimension by block", blocks, TESTS, NOTES),
        Target("seed1-4", "seed1", "4", MSCLAP, ("ESC-50",), "dimension by stage, 1,000 clips", stages_of_a_thousand,
               "contradicts table 1, which agrees with the published table of heads"),
        Target("seed1-5", "seed1", "5", MSCLAP, ("VocalSound",), "dimension by stage, 1,000 clips", stages_of_a_thousand, TESTS,
               ("whether the 1,000 are of all recordings (ours) or of the 1,200 is not said",)),
        Target("seed1-6", "seed1", "6", MSCLAP, ("TinySOL",), "ANOVA between stages", tests_between_stages, TESTS, NOTES),
        Target("seed1-7", "seed1", "7", MSCLAP, ("TinySOL",), "differences between pairs of stages", pairs_of_stages, TESTS, NOTES),
        Target("seed1-fig4", "seed1", "fig4", MSCLAP, ("ESC-50",), "entropy against PCA99", entropy),
        Target("seed1-fig5", "seed1", "fig5", MSCLAP, ("ESC-50",), "similarity of spectra", similarity),
        Target("seed1-fig6", "seed1", "fig6", MSCLAP, ("ESC-50",), "block ablation, 100 clips", block_ablation,
               "its 47 % before ablation contradicts the 93.85 % of kfold-esc50",
               ("which 100 clips were used is not said (ours: in proportion to the classes, seed 42)",)),
        Target("seed2-1", "paolini", "kfold", LAION, ("ESC-50",), "zero-shot, gains on stage 0, linear probe", baselines, DOUBLED, STAGES),
        Target("seed2-fig9", "paolini", "fig9", LAION, ("ESC-50",), "accuracy of every fold by set of stages", sets_of_stages,
               f"{DOUBLED}; {FIG9}", STAGES),
        *(
            Target(f"kfold-{DATA[data]}", "arcioni-final", "kfold", MSCLAP, (data,), "5-fold accuracy by subset of stages", stage_subsets,
                   LEAKS, KFOLD)
            for data in ("ESC-50", "IRMAS", "TinySOL", "VocalSound")
        ),
    )
}  # fmt: skip
