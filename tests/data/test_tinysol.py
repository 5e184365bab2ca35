from __future__ import annotations

import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, load_dataset

HEADER = (
    "Path,Fold,Family,Instrument (abbr.),Instrument (in full),Technique (abbr.),Technique (in full),Pitch,Pitch ID,Dynamics,Dynamics ID,"
    "Instance ID,String ID (if applicable),Needed digital retuning\n"
)
ROWS = [
    "Brass/Bass_Tuba/ordinario/BTb-ord-F#1-pp-N-N.wav,2,Brass,BTb,Bass Tuba,ord,ordinario,F#1,30,pp,0,0,,FALSE\n",
    "Brass/Bass_Tuba/ordinario/BTb-ord-F2-pp-N-T25u_R100u.wav,0,Brass,BTb,Bass Tuba,ord,ordinario,F2,41,pp,0,0,,TRUE\n",
    "Winds/Clarinet_Bb/ordinario/ClBb-ord-D3-pp-N-N.wav,4,Winds,ClBb,Clarinet in Bb,ord,ordinario,D3,50,pp,0,0,,FALSE\n",
]


def lay_out(root, write, table, audio):
    (root / table).parent.mkdir(parents=True, exist_ok=True)
    (root / table).write_text(HEADER + "".join(ROWS))
    for row in ROWS:
        write(root / audio / row.split(",")[0], rate=44100)


@pytest.mark.parametrize("table", ["TinySOL_metadata.csv", "annotation/TinySOL_metadata.csv"])
@pytest.mark.parametrize("audio", ["audio", "TinySOL", "TinySOL2020", "."])
def test_known_layouts(tmp_path, write, table, audio):
    lay_out(tmp_path, write, table, audio)
    data = load_dataset("tinysol", tmp_path)
    assert (data.folds, data.labels) == ("official", ("Bass Tuba", "Clarinet in Bb"))
    assert [c.fold for c in data.clips] == [2, 0, 4]
    assert data.names == {"Bass Tuba": "bass tuba", "Clarinet in Bb": "clarinet"}
    assert [c.tags for c in data.clips] == [(), ("retuned",), ()]
    assert data.groups == ["Bass Tuba F#1", "Bass Tuba F2", "Clarinet in Bb D3"]
    assert data.clips[0].id == "BTb-ord-F#1-pp-N-N"
    assert all(len(read(c.source, 44100)) == 2205 for c in data.clips)


def test_missing_notes(tmp_path, write):
    lay_out(tmp_path, write, "TinySOL_metadata.csv", "audio")
    (tmp_path / "audio" / ROWS[0].split(",")[0]).unlink()
    with pytest.raises(DataError, match=r"1 of 3 recordings are missing in .*audio .*BTb-ord-F#1-pp-N-N.wav"):
        load_dataset("tinysol", tmp_path)


def test_absent(tmp_path):
    with pytest.raises(DataError, match=r"tinysol: not in .*TinySOL_metadata.csv(.|\n)*zenodo.org/records/3685367"):
        load_dataset("tinysol", tmp_path)
