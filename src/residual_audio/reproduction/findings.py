"""What published documents found: a sign, an order or a trend, checked on any table of figures, published or ours.

A finding reads the rows of a target (:mod:`.targets`), so that the same check runs on the published figures (there it must hold, which
the tests see to) and on every encoder and dataset that is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import checks
from .adapted import baselines, sets_of_stages, stage_subsets
from .checks import HTSAT_BORDERS, Figures, NotAsked, Verdict, rises
from .rows import BOTH, Row
from .targets import (
    block_ablation,
    blocks,
    entropy,
    last_stages,
    pairs_of_stages,
    similarity,
    stages_and_tests,
    stages_of_a_thousand,
)


@dataclass(frozen=True)
class Finding:
    """``of``: the target's protocol whose rows it reads; ``known``: the published tables that hold it (none: it was only drawn)."""

    name: str
    source: str
    text: str
    of: Callable[..., list[Row]]
    check: Callable[[Figures], Verdict]
    known: tuple[str, ...] = ()


FINDINGS = (
    Finding("dimension-rises", "report 1, 4.1.1", "PCA99 rises from every stage to the next", stages_and_tests, rises("pca_99"),
            ("seed1-1",)),
    Finding("first-axis-falls", "report 1, 4.1.1", "the first axis' share falls from every stage to the next", stages_and_tests,
            rises("evr_1", sign=-1, digits=2), ("seed1-1",)),
    Finding("twonn-rises", "report 1, 4.1.4; draft", "TwoNN rises from every stage to the next", stages_and_tests, rises("twonn"),
            ("seed1-1",)),
    Finding("ratio-rises", "report 1, 4.1.1", "L/N is higher in the last stage than in the first", stages_and_tests,
            checks.ratio_rises, ("seed1-1",)),
    Finding("saturates", "report 1, 4.1.1", "PCA99 changes least from the last stage but one to the last", stages_and_tests,
            checks.saturates, ("seed1-1",)),
    Finding("evens-out", "report 1, 4.3", "heads differ less in the last stage than in the second (CV of PCA99)", stages_and_tests,
            checks.evens_out,
            ("seed1-1",)),
    Finding("jump-at-border", "report 1, A.1", "the largest step of PCA99 between blocks is at the first border of stages", blocks,
            checks.jumps_at_border, ("seed1-fig2", "seed1-3")),
    Finding("end-falls", "report 1, 4.1.2", "PCA99 falls in the last block", blocks, checks.falls_at_the_end, ("seed1-fig2", "seed1-3")),
    Finding("hunchback", "the ResiDual paper", "TwoNN rises and falls again: its peak is inside", blocks, checks.hunchback,
            ("seed1-fig2", "seed1-3")),
    Finding("nonlinear-with-depth", "the ResiDual paper", "L/N rises with depth", blocks, checks.ratio_rises_by_block, ("seed1-fig2",
            "seed1-3")),
    Finding("same-of-a-thousand", "report 1, A.2", "PCA99 rises from every stage to the next, of 1,000 clips", stages_of_a_thousand,
            rises("pca_99"), ("seed1-4", "seed1-5")),
    Finding("across-data", "report 1, 4.1.3", "the last stage's PCA99 varies by less than a tenth between data sets", last_stages,
            checks.consistent_across_data, ("seed1-2",)),
    Finding("pairs-grow", "report 1, A.3", "the difference of PCA99 to the first stage grows with every stage", pairs_of_stages,
            checks.first_pairs, ("seed1-7",)),
    Finding("entropy-with-dimension", "report 1, 4.2.1", "entropy and PCA99 of heads go together (ρ > 0.8)", entropy,
            checks.above("entropy_pca_99_spearman", 0.8), ("seed1-fig4",)),
    Finding("within-above-between", "report 1, 4.2.2", "spectra are more alike within stages than between", similarity,
            checks.within_above_between,
            ("seed1-fig5",)),
    Finding("first-block-matters", "report 1, 4.2.3", "block 0 is the most critical of all", block_ablation,
            checks.first_block_matters_most,
            ("seed1-fig6",)),
    Finding("last-stage-neutral", "report 1, 4.2.3", "no block of the last stage costs more than a point", block_ablation,
            checks.last_stage_is_neutral,
            ("seed1-fig6",)),
    Finding("entropy-against-importance", "report 1, 4.2.3", "blocks of low entropy matter more (r < 0)", block_ablation,
            checks.entropy_against_importance, ("seed1-fig6",)),
    Finding("gains-help", "the final report; the ResiDual paper", "gains on heads beat the model as it is, for every subset of stages",
            stage_subsets, checks.gains_help, ("kfold-esc50", "kfold-irmas", "kfold-tinysol", "kfold-vocalsound")),
    Finding("two-stages-best", "the final report", "the last two stages are the best subset", stage_subsets, checks.two_stages_are_best,
            ("kfold-esc50", "kfold-irmas", "kfold-tinysol", "kfold-vocalsound")),
    Finding("gains-harm", "an earlier run of the final report's repository", "gains lower the accuracy (on ESC-50)", stage_subsets,
            checks.earlier_sign),
    Finding("stage-gains-do-not-help", "report 2, table 1", "gains on one basis of the first stage lower the accuracy", baselines,
            checks.stage_gains_do_not_help, ("seed2-1",)),
    Finding("linear-best", "report 2, table 1", "a linear layer beats both", baselines, checks.linear_beats_all, ("seed2-1",)),
    Finding("first-stage-best", "report 2, figure 9", "the first stage alone has the highest median over folds", sets_of_stages,
            checks.first_stage_alone_is_best),
    Finding("all-stages-worst", "report 2, figure 9", "all stages together have the lowest median and the largest spread", sets_of_stages,
            checks.all_stages_are_worst),
)  # fmt: skip


def verdicts(table: pd.DataFrame, of: Callable[..., object], borders: tuple[int, ...] = HTSAT_BORDERS) -> Iterator[dict[str, Any]]:
    """Every finding about a target's table, by every protocol in it: whether it holds (None: it cannot be asked here), and why."""
    ways = [way for way in dict.fromkeys(table.protocol) if way != BOTH] or [BOTH]
    for finding in (f for f in FINDINGS if f.of is of):
        for way in ways:
            rows = table[table.protocol.isin((way, BOTH))].rename(columns={"ours": "value"})
            holds: bool | None
            try:
                holds, said = finding.check(Figures(rows, borders))
            except NotAsked as why:
                holds, said = None, str(why)
            yield {"finding": finding.name, "source": finding.source, "text": finding.text, "protocol": way, "holds": holds, "said": said}
