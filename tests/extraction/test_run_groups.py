"""A run keeps the groups of its clips; runs that were made before there were groups open all the same."""

import json
from dataclasses import replace

import pandas as pd

from residual_audio.data import load_dataset
from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder


def test_groups_are_kept_and_older_runs_have_ids(tmp_path):
    data = load_dataset("synthetic-voice", per_class=1).limited(4)
    named = replace(data, clips=tuple(replace(c, group=group) for c, group in zip(data.clips, ("s1", "", "s1", "s2"), strict=True)))
    run = extract(load_encoder("tiny"), named, tmp_path / "run", ("embedding",))
    ids = [c.id for c in named.clips]
    assert run.groups.tolist() == run.clips["group"].tolist() == named.groups == ["s1", ids[1], "s1", "s2"]
    table = tmp_path / "run" / "clips.parquet"
    pd.read_parquet(table).drop(columns="group").to_parquet(table)
    record = tmp_path / "run" / "run.json"
    older = {name: value for name, value in json.loads(record.read_text()).items() if name != "digests"}
    record.write_text(json.dumps(older))
    assert Run.open(tmp_path / "run").groups.tolist() == ids
