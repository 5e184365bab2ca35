"""Every kind of bad file that we know, made on the spot: what it is, and a part of what is said of it. docs/audio.md shows this list."""

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a2146' * 8}\nsize 12345\n"
NOT_AUDIO = "not an audio file that libsndfile can read"
NOT_IMAGE = "not an image that Pillow can read"
BREAKS = "breaks off while decoding"


@dataclass(frozen=True)
class Kind:
    """``what`` ends the sentence "a file that …"; ``make`` writes it to a path and may return another one; ``says``: part of the error."""

    name: str
    what: str
    says: str
    make: Callable[[Path], str | Path | None]


def tone(seconds: float = 0.5, rate: int = 16000) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)


def wav(rate: int = 16000, channels: int = 1, tag: int = 1, bits: int = 16, data: bytes = b"\0\1" * 800) -> bytes:
    """A WAV whose header says what we like."""
    step = channels * bits // 8
    form = struct.pack("<HHIIHH", tag, channels, rate, (rate * step) % 2**32, step % 2**16, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def content(data: bytes | str) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data) and None


def noise(count: int = 4000, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(count)


def cut(count: int | float, **how: str) -> Callable[[Path], None]:
    """A sound of the path's own ending, of which ``count`` bytes (or that share of them) are left."""

    def make(path: Path) -> None:
        soundfile.write(path, tone(), 16000, **how)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(count * len(whole)) if isinstance(count, float) else count])

    return make


def samples(value: float) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = tone()
        data[100:103] = value
        soundfile.write(path, data, 16000, subtype="FLOAT")

    return make


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


SOUNDS = (
    Kind("missing.wav", "is missing", "no such file", lambda path: None),
    Kind("folder.wav", "is a directory", "is a directory", lambda path: path.mkdir()),
    Kind("empty.wav", "has 0 bytes", "is empty (0 bytes)", lambda path: path.touch()),
    Kind("loop.wav", "is a link to itself", "no such file", link("loop.wav")),
    Kind("dangling.wav", "is a link to nothing", "no such file", link("nowhere.wav")),
    Kind("linked-folder.wav", "is a link to a directory", "is a directory", link(".")),
    Kind("device.wav", "is a device", "is not a regular file", link("/dev/zero")),
    Kind("pipe.wav", "is a named pipe", "is not a regular file", pipe),
    Kind("long-name", "has a name of 300 bytes", "cannot be opened (File name too long)", lambda path: path.with_name("x" * 296 + ".wav")),
    Kind("null", "has a null byte in its name", "no such file", lambda path: f"{path}\0.wav"),
    Kind("text.wav", "is text", NOT_AUDIO, content("Dear diary, today I renamed a text file.\n" * 40)),
    Kind("page.mp3", "is a web page (a failed download)", NOT_AUDIO, content("<!DOCTYPE html><html><body>404</body></html>\n" * 20)),
    Kind("pointer.wav", "is a pointer of Git LFS", NOT_AUDIO, content(LFS)),
    Kind("table.wav", "is JSON", NOT_AUDIO, content('{"audio": [0.1, 0.2]}' * 30)),
    Kind("picture.wav", "is a PNG", NOT_AUDIO, content(b"\x89PNG\r\n\x1a\n" + noise())),
    Kind("archive.wav", "is a ZIP", NOT_AUDIO, content(b"PK\x03\x04" + noise())),
    Kind("packed.wav", "is a WAV packed by gzip", NOT_AUDIO, lambda path: content(gzip.compress(wav(), mtime=0))(path)),
    Kind("base.wav", "is an SQLite database", NOT_AUDIO, content(b"SQLite format 3\0" + noise())),
    Kind("fork.wav", "is a resource fork of macOS", NOT_AUDIO, content(b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(100))),
    Kind("film.m4a", "is MP4 or AAC", NOT_AUDIO, content(b"\0\0\0\x20ftypM4A \0\0\0\0" + noise())),
    Kind("media.wma", "is Windows Media", NOT_AUDIO, content(bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + noise())),
    Kind("pack.wv", "is WavPack", NOT_AUDIO, content(b"wvpk" + noise())),
    Kind("notes.mid", "is MIDI", NOT_AUDIO, content(b"MThd\0\0\0\6\0\1\0\1\0\x60" + noise(300))),
    Kind("film.ogg", "is Ogg with a film in it", NOT_AUDIO, content(b"OggS\0\2" + bytes(20) + b"\1\x2a\x80theora" + noise(600))),
    Kind("samples.raw", "is bare samples without a header", "bare samples without a header", content(noise())),
    Kind("zeros.wav", "is all zeros", NOT_AUDIO, content(bytes(5000))),
    Kind("noise.wav", "is noise called .wav", NOT_AUDIO, content(noise())),
    Kind("noise.mp3", "is noise called .mp3", NOT_AUDIO, content(noise(400))),
    Kind("noise.flac", "is noise called .flac", NOT_AUDIO, content(noise())),
    Kind("noise.ogg", "is noise called .ogg", NOT_AUDIO, content(noise())),
    Kind("magic.wav", "is noise after the first word of a WAV", NOT_AUDIO, content(b"RIFF" + noise())),
    Kind("magic.flac", "is noise after the first word of a FLAC", NOT_AUDIO, content(b"fLaC" + noise())),
    Kind("tag.mp3", "is an MP3 with a title and no sound", NOT_AUDIO, content(b"ID3\3\0\0\0\0\7\x76" + bytes(1014))),
    Kind("header.wav", "is a WAV cut off in its header", NOT_AUDIO, cut(20)),
    Kind("header.flac", "is a FLAC cut off in its header", NOT_AUDIO, cut(20)),
    Kind("header.ogg", "is an Ogg cut off in its header", NOT_AUDIO, cut(40)),
    Kind("header.aiff", "is an AIFF cut off in its header", NOT_AUDIO, cut(20)),
    Kind("header.au", "is an AU cut off in its header", "the file is truncated", cut(10)),
    Kind("header.caf", "is a CAF cut off in its header", NOT_AUDIO, cut(30)),
    Kind("header.w64", "is a W64 cut off in its header", NOT_AUDIO, cut(60)),
    Kind("frames.wav", "has a header and no frames", "has a header but no audio frames", content(wav(data=b""))),
    Kind("frames.flac", "is a FLAC of which only the header is left", "the file is truncated", cut(90)),
    Kind("rate0.wav", "has a rate of 0 Hz", NOT_AUDIO, content(wav(rate=0))),
    Kind("rate.wav", "has a rate of 2³¹ − 1 Hz", "a sample rate of 2,147,483,647 Hz makes no sense", content(wav(rate=2**31 - 1))),
    Kind("channels0.wav", "has no channel", NOT_AUDIO, content(wav(channels=0))),
    Kind("channels.wav", "has 65,535 channels", NOT_AUDIO, content(wav(channels=65535))),
    Kind("codec.wav", "is a WAV of an unknown codec", NOT_AUDIO, content(wav(tag=0x1234))),
    Kind("nan.wav", "has samples that are NaN", "3 of 8000 samples are NaN or infinite", samples(np.nan)),
    Kind("infinite.wav", "has samples that are infinite", "3 of 8000 samples are NaN or infinite", samples(np.inf)),
    Kind("huge.wav", "has samples of 10³⁰", "its samples are too large", samples(1e30)),
    Kind("one.wav", "has one sample at 192 kHz", "it is too short", lambda path: soundfile.write(path, np.ones(1), 192000)),
    Kind("four.wav", "has four samples at 192 kHz", "it is too short", lambda path: soundfile.write(path, np.ones(4), 192000)),
    Kind("task", "is a `synthetic:` address of no task", "is no synthetic sound", lambda path: "synthetic:weather/3/17"),
    Kind("take", "is a `synthetic:` address without a number", "is no synthetic sound", lambda path: "synthetic:timbre/three/17"),
)  # fmt: skip


def png(height: int, width: int, rows: bytes | None = None, extra: bytes = b"") -> bytes:
    """A grey PNG whose header says what we like; ``extra`` chunks stand before the pixels."""
    pixels = zlib.compress(bytes(height * (width + 1)) if rows is None else rows)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture_cut(share: float) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        from PIL import Image

        Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])

    return make


def fuzzed(count: int) -> Callable[[Path], None]:
    """A picture whose later bytes are noise."""

    def make(path: Path) -> None:
        picture_cut(1.0)(path)
        whole = bytearray(path.read_bytes())
        whole[count:] = noise(len(whole) - count)
        path.write_bytes(whole)

    return make


def floats(path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.ones((8, 8), np.float32)).save(path)


LARGE_TEXT = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(8 << 20)))
EPS = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n0 0 9 9 rectfill showpage\n%%EOF\n"
IMAGES = (
    Kind("missing.png", "is missing", "no such file", lambda path: None),
    Kind("empty.png", "has 0 bytes", "is empty (0 bytes)", lambda path: path.touch()),
    Kind("pipe.png", "is a named pipe", "is not a regular file", pipe),
    Kind("text.png", "is text", NOT_IMAGE, content("Dear diary, today I renamed a text file.\n" * 40)),
    Kind("drawing.png", "is SVG", NOT_IMAGE, content('<svg xmlns="http://www.w3.org/2000/svg"/>')),
    Kind("script.png", "is PostScript (a program)", NOT_IMAGE, content(EPS)),
    Kind("paper.png", "is PDF", NOT_IMAGE, content(b"%PDF-1.7\n" + noise())),
    Kind("phone.jpg", "is HEIC", NOT_IMAGE, content(b"\0\0\0\x18ftypheic\0\0\0\0" + noise())),
    Kind("cut.png", "is a PNG cut in half", BREAKS, picture_cut(0.5)),
    Kind("cut.jpg", "is a JPEG cut in half", BREAKS, picture_cut(0.5)),
    Kind("cut.bmp", "is a BMP cut in half", BREAKS, picture_cut(0.5)),
    Kind("cut.tiff", "is a TIFF cut in half", "cut.tiff", picture_cut(0.5)),
    Kind("fuzzed.jp2", "is a JPEG 2000 with noise in it", "fuzzed.jp2", fuzzed(120)),
    Kind("fuzzed.ppm", "is a PPM with noise in its header", "fuzzed.ppm", content(b"P6\n40 40\n9999999999\n" + noise())),
    Kind("narrow.png", "has 200,000 × 1 pixels, which resizing makes billions", "pixels are more than", content(png(200_000, 1))),
    Kind("large.png", "claims 12,000 × 12,000 pixels", "pixels are more than", content(png(12000, 12000, b""))),
    Kind("bomb.png", "claims 60,000 × 60,000 pixels", BREAKS, content(png(60000, 60000, b""))),
    Kind("words.png", "has megabytes of packed text", BREAKS, content(png(8, 8, extra=LARGE_TEXT))),
    Kind("floats.tiff", "has floating-point pixels", "floating-point", floats),
)  # fmt: skip


def make_all(kinds: tuple[Kind, ...], folder: Path) -> list[str]:
    """Their paths, in order."""
    folder.mkdir(exist_ok=True)
    return [str(kind.make(folder / kind.name) or folder / kind.name) for kind in kinds]


def table(kinds: tuple[Kind, ...]) -> str:
    """As a page shows them: kinds with one error share a row."""
    rows: dict[str, list[str]] = {}
    for kind in kinds:
        rows.setdefault("an error with its name" if kind.says == kind.name else f"`{kind.says}`", []).append(kind.what)
    return "\n".join(f"| {'; '.join(whats)} | {says} |" for says, whats in rows.items())
