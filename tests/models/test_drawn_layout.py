"""How encoders are built, as the command draws it."""

from residual_audio.models import load_encoder
from residual_audio.models.layout import full_size, layout_lines


def test_full_size_htsat_has_four_grids():
    """Merging follows stages 0, 1 and 2; one report left out the third and kept 16 × 16 to the end."""
    htsat = full_size()
    assert [s.grid for s in htsat.stages] == [(64, 64), (32, 32), (16, 16), (8, 8)]
    assert [s.merge_norm is not None for s in htsat.stages] == [True, True, True, False]
    assert htsat.units.d_model == (96, 192, 384, 768)
    assert htsat.units.heads == ((4, 4), (8, 8), (16,) * 6, (32, 32))
    assert set(htsat.units.d_head) == {24}
    assert [s.grid[0] * s.grid[1] // 64 for s in htsat.stages] == [64, 16, 4, 1]
    assert [(s.window, s.shift) for s in htsat.sites] == [(8, 0), (8, 4)] * 5 + [(8, 0)] * 2
    assert htsat.strips == 4


def test_the_drawing_of_full_size_htsat():
    lines = layout_lines(full_size())
    assert "S3   8 × 8 = 64 tokens of 768, one window of 8 × 8" in lines
    assert "  merge  2 × 2 tokens side by side: 1536 → norm → 768  held: 1/σ of every merged token" in lines
    assert "  S2B5   S2B5H0–H15: 16 heads of 24, windows moved by 4   S2B5M: 384 → 1536 → 384" in lines
    assert lines[-1] == "184 heads and 12 MLPs in 12 blocks; with E, 197 units that write"


def test_any_encoder_can_be_drawn(whisper_dir, msclap_path, clip_dir):
    whisper = "\n".join(layout_lines(load_encoder(whisper_dir, seconds=1.0)))
    assert "1 × 50 = 50 tokens of 32, one window over everything" in whisper
    assert "this is the embedding: 32" in whisper
    microsoft = layout_lines(load_encoder(msclap_path))
    assert "held: act(x)/x of every hidden channel, 1/σ of the last norm" in microsoft[-2]
    assert "projection (linear): embedding of 24" in layout_lines(load_encoder(clip_dir))[-2]


def test_the_command(command, capsys):
    assert command("models", "htsat") == 0
    assert "64 windows of 8 × 8; a share takes one of 64 paths" in capsys.readouterr().out
