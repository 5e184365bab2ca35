"""Ray writes the very shards that the local engine writes, finishes its runs, and says what went wrong."""

import shutil
import sys

import pyarrow as pa
import pytest
import soundfile
import torch

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "residual-audio[ray]"')

from residual_audio.data import load_dataset, make_dataset  # noqa: E402
from residual_audio.data.clip import Clip  # noqa: E402
from residual_audio.extraction import ExtractionError, Settings, Store, extract  # noqa: E402
from residual_audio.extraction.engines import cluster as places  # noqa: E402
from residual_audio.extraction.engines import ray as engine  # noqa: E402
from residual_audio.extraction.extract import identity, open_or_create, reopening_notes  # noqa: E402
from residual_audio.models import load_encoder, precision  # noqa: E402
from residual_audio.models.precision import bf16_ratio  # noqa: E402
from tests.helpers.stored import same_runs  # noqa: E402

EVERYTHING = ("head", "mlp", "block", "stage", "embedding", "moments", "direct", "attention")


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this process with 2 CPUs; the engine uses it and leaves it."""
    with places.alone(ray):  # Ray's own default would leave its mode of authentication in this process's environment
        with places.muted_backend():
            ray.init("local", num_cpus=2, log_to_driver=False, logging_level="error", **places.HERE)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def voices():
    return load_dataset("synthetic-voice", per_class=5)


@pytest.fixture
def threads():
    """Sets the number of torch's threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def with_broken_files(dataset, folder):
    """A few files among the synthetic sounds: one good, one that is no sound, one that is not there; paths are relative."""
    soundfile.write(folder / "good.wav", 0.1 * torch.randn(16000).numpy(), 16000)
    (folder / "text.wav").write_text("not a sound")
    files = [Clip(name, f"{name}.wav", dataset.labels[0]) for name in ("good", "text", "absent")]
    return make_dataset("mixed", [*dataset.clips[:3], *files, *dataset.clips[3:]])


def test_ray_finishes_what_was_begun_here_with_the_same_bits(cluster, tiny, voices, tmp_path, threads, monkeypatch):
    """Two actors of one thread against this process with one; the run's folder and the files are given by relative paths."""
    monkeypatch.chdir(tmp_path)
    threads(1)
    mixed = with_broken_files(voices, tmp_path)
    local = extract(tiny, mixed, "local", EVERYTHING, batch_size=2)
    shutil.copytree("local", "spread")
    first, *kept, last = sorted((tmp_path / "spread" / "shards").iterdir())
    first.unlink()
    last.unlink()
    (tmp_path / "spread" / "moments.safetensors").unlink()
    (tmp_path / "spread" / "clips.parquet").unlink()
    stamps, done = [path.stat().st_mtime_ns for path in kept], []
    spread = extract(tiny, mixed, "spread", EVERYTHING, batch_size=2, engine="ray", actors=2, advance=done.append)
    same_runs(local, spread)
    assert list(spread.all_clips.id[spread.all_clips.status == "error"]) == ["text", "absent"]
    assert [path.stat().st_mtime_ns for path in kept] == stamps
    assert len(done) == 3
    assert sum(done) == len(mixed)
    assert ray.is_initialized()


def test_ray_multiplies_in_the_precision_that_the_driver_settled(cluster, voices, tmp_path, threads, monkeypatch):
    """``auto`` is settled once, where the command runs, and recorded; actors read it from the run and give the same bits."""
    if bf16_ratio() is None:
        pytest.skip("this CPU has no bf16")
    threads(1)
    with monkeypatch.context() as patch:
        patch.setattr(precision, "bf16_ratio", lambda: 0.5)
        encoder = load_encoder("tiny", precision="auto")
    local = extract(encoder, voices, tmp_path / "local", EVERYTHING, batch_size=4)
    spread = extract(encoder, voices, tmp_path / "spread", EVERYTHING, batch_size=4, engine="ray", actors=2)
    assert local.info["precision"] == spread.info["precision"] == "bf16"
    same_runs(local, spread)


def test_an_error_in_an_actor_reaches_the_user_and_finished_shards_stay(cluster, tiny, voices, tmp_path, threads):
    """One actor of two threads against this process with two; both finish the two shards before the broken one, with the same bits."""
    threads(2)
    address = f"local://{tmp_path}/spread"  # a URL that is no local folder to the store, and yet one that actors can reach
    for home in (address, str(tmp_path / "local")):
        settings = Settings(batch_size=2).sized(len(voices))
        open_or_create(Store(home), identity(tiny, voices, settings, files=False), reopening_notes(tiny, voices))
        # A folder in the place of a file: the third shard cannot be written.
        (tmp_path / home.rpartition("/")[2] / "digests" / "00002.safetensors.sha256").mkdir(parents=True)
    with pytest.raises(ExtractionError, match=r"shard 2 failed on .*IsADirectoryError.*\nFinished shards stay") as caught:
        extract(tiny, voices, address, batch_size=2, engine="ray", cpus_per_actor=2)
    assert "Traceback" in caught.value.__notes__[0]
    with pytest.raises(IsADirectoryError):
        extract(tiny, voices, tmp_path / "local", batch_size=2)
    local, spread = Store(str(tmp_path / "local")), Store(address)
    assert local.names("shards") == ["00000.safetensors", "00001.safetensors"]
    # An actor works ahead: shards after the broken one may be finished before its error arrives. They stay too.
    assert set(spread.names("shards")) >= set(local.names("shards"))
    assert "00002.safetensors" not in spread.names("shards")
    for name in local.names("shards"):
        one, other = local.read_tensors(f"shards/{name}"), spread.read_tensors(f"shards/{name}")
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def plan(store, jobs=()):
    return engine.make_plan(Settings(), Store(str(store)), jobs, None, 1, 0)


def test_an_actor_refuses_a_place_it_cannot_see(tmp_path):
    with pytest.raises(ExtractionError, match=r"has no run\.json as seen from here"):
        engine.check_place(plan(tmp_path))
    Store(str(tmp_path)).write_json("run.json", {"versions": {"torch": "0.1"}})
    with pytest.raises(ExtractionError, match=r"this machine has torch .* instead of 0\.1"):
        engine.check_place(plan(tmp_path))
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"")
    seen = plan(tmp_path, [(0, [Clip("a", str(sound), "x")])])
    sound.unlink()
    with pytest.raises(ExtractionError, match=r"a\.wav is not there as seen from here"):
        engine.check_place(seen)
    with pytest.raises(ExtractionError, match="shard 3 was written, but is not in"):
        engine.check_written(Store(str(tmp_path)), [3])


def test_a_shard_that_kills_its_worker_is_given_up(cluster, tmp_path):
    """Ray would begin it again without end; the count of attempts outlives the worker and ends that."""
    actor = engine.ShardActor(plan(tmp_path), engine.attempts_actor(ray))
    for _ in range(engine.ATTEMPTS):
        assert ray.get(actor.attempts.begin.remote(7)) <= engine.ATTEMPTS
    (row,) = pa.Table.from_pydict(actor(pa.Table.from_pylist([engine.as_item(7, [Clip("a", "a.wav", "x")])]))).to_pylist()
    assert row["error"].startswith("its worker died 3 times")
    assert str(engine.failure(row)).startswith("shard 7 failed on")


def test_what_is_missing_is_said(monkeypatch):
    with pytest.raises(ExtractionError, match=r"no Ray at '127\.0\.0\.1:9'"):
        places.connect(ray, "127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExtractionError, match=r'pip install "residual-audio\[ray\]"'):
        places.import_ray()


def test_settings_that_make_no_sense_start_nothing(tmp_path, voices, monkeypatch):
    monkeypatch.setattr(engine, "cluster", lambda *_: pytest.fail("a cluster was started"))
    windows = load_encoder("tiny", crop="windows")
    with pytest.raises(ExtractionError, match="one window per clip"):
        extract(windows, voices, tmp_path / "run", ("direct",), engine="ray")
