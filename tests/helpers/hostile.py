"""Uploads that mean harm, or that a careless decoder would be harmed by; every one has to be refused without harm."""

import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import soundfile


def wav(
    rate: int = 8000, channels: int = 1, bits: int = 16, kind: int = 1, data: bytes = b"", size: int | None = None, align: int | None = None
) -> bytes:
    """A WAV whose header says whatever it is told to."""
    size = len(data) if size is None else size
    align = channels * bits // 8 if align is None else align
    format = struct.pack("<HHIIHH", kind, channels & 0xFFFF, rate & 0xFFFFFFFF, (rate * align) & 0xFFFFFFFF, align & 0xFFFF, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(format)) + format + b"data" + struct.pack("<I", size & 0xFFFFFFFF) + data
    return b"RIFF" + struct.pack("<I", (4 + len(body)) & 0xFFFFFFFF) + body


def encoded(samples: np.ndarray, rate: int, format: str, subtype: str | None = None) -> bytes:
    """By blocks: libsndfile's Vorbis encoder overflows its stack where it is given a minute at once."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate, 1, subtype, format=format) as sound:
        for start in range(0, len(samples), rate):
            sound.write(samples[start : start + rate])
    return file.getvalue()


def archive(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("../../etc/passwd.wav", b"\0" * 10_000_000)
    else:
        with tarfile.open(fileobj=file, mode="w:gz") as made:
            link = tarfile.TarInfo("sound.wav")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            made.addfile(link)
    return file.getvalue()


def uploads() -> dict[str, bytes]:
    """By what they are."""
    rng = np.random.default_rng(5)
    noise, long = rng.uniform(-1, 1, 4000).astype(np.float32), np.zeros(8000 * 40, np.float32)
    flac, ogg, mp3 = (encoded(noise, 8000, kind) for kind in ("FLAC", "OGG", "MP3"))
    broken = bytearray(flac)
    broken[30:400:3] = bytes(len(broken[30:400:3]))
    return {
        "nothing": b"",
        "one byte": b"\0",
        "text": b"hello",
        "html": b"<!doctype html><script>alert(1)</script>",
        "script in svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        "json": json.dumps({"path": "/etc/passwd"}).encode(),
        "a path": b"/etc/passwd",
        "a path up": b"../../../../etc/passwd",
        "a url": b"file:///etc/passwd",
        "a synthetic address": b"synthetic:source/8/20000000",
        "a playlist": b"#EXTM3U\nfile:///etc/passwd\nhttp://127.0.0.1:1/x.mp3\n",
        "pickle": b"\x80\x04\x95\x1f\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
        "elf": b"\x7fELF" + bytes(200),
        "zip bomb": archive("zip"),
        "tar with a link": archive("tar"),
        "gzip bomb": gzip.compress(bytes(20_000_000)),
        "zlib bomb": zlib.compress(bytes(20_000_000)),
        "png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0) + bytes(4),
        "noise": os.urandom(100_000),
        "only a header": wav(),
        "half a header": wav(data=bytes(100))[:20],
        "2 GB in the header, none there": wav(size=2**31 - 1),
        "4 GB in the header, none there": wav(size=2**32 - 1),
        "rf64 of 2^63 bytes": b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<IQQQI", 28, 2**63 - 1, 2**63 - 1, 2**62, 0)
        + wav()[12:-8] + b"data\xff\xff\xff\xff",
        "no channels": wav(channels=0, data=bytes(1000), align=2),
        "65535 channels": wav(channels=65535, data=bytes(1000)),
        "no rate": wav(rate=0, data=bytes(1000)),
        "4 GHz": wav(rate=4_000_000_000, data=bytes(1000)),
        "no bits": wav(bits=0, data=bytes(1000), align=0),
        "unknown codec": wav(kind=0x7777, data=bytes(1000)),
        "NaN": encoded(np.full(4000, np.nan, np.float32), 8000, "WAV", "FLOAT"),
        "infinity": encoded(np.full(4000, np.inf, np.float32), 8000, "WAV", "FLOAT"),
        "one sample at a high rate": wav(rate=1_900_000, data=bytes(2)),
        "too long": encoded(long, 8000, "FLAC"),
        "an hour of silence, packed to nothing": encoded(np.zeros(8000 * 3600, np.int16), 8000, "FLAC"),
        "two minutes of ogg silence": encoded(np.zeros(8000 * 120, np.float32), 8000, "OGG"),
        "flac, damaged": bytes(broken[:200]),
        "ogg, cut": ogg[:60],
        "mp3 tag of 256 MB": b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + bytes(100),
        "aiff of 2 GB":
        b"FORM\x7f\xff\xff\xffAIFFCOMM\0\0\0\x12\0\x02\x7f\xff\xff\xff\0\x10\x40\x0e\xac\x44\0\0\0\0\0\0SSND\x7f\xff\xff\xff",
        "au of 4 GB": b".snd" + struct.pack(">IIIII", 24, 0xFFFFFFFE, 3, 8000, 60000),
        "webm": b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1fB\x86\x81\x01webm" + mp3[:50],
    }  # fmt: skip
