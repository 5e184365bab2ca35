"""Real recordings under free licences that Debian packages carry, with the nouns that are true of each.

``find()`` gives one :class:`Recording` per file. Where the packages are not installed, the error names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAMPS = Path("/usr/share/tuxpaint/stamps")
SAMPLES = Path("/usr/share/sonic-pi/samples")
THEME = Path("/usr/share/sounds/freedesktop/stereo")
PACKAGES = {
    "tuxpaint-stamps-default": "GPL-2",
    "sonic-pi-samples": "CC0 (each sample has its own paragraph in the package's copyright file)",
    "sound-theme-freedesktop": "CC-BY-SA-3.0, CC-BY-3.0, GPL-2+ (by file)",
}

# Folder of a stamp → what everything in it is, besides its own name.
KINDS = {
    "animals/birds": ("bird", "animal"),
    "animals/insects": ("insect", "buzzing insect"),
    "animals/amphibians": ("animal",),
    "animals/lizards": ("animal",),
    "animals/mammals": ("animal", "mammal"),
    "animals/marsupials": ("animal",),
    "hobbies/music": ("musical instrument",),
    "household": ("household sound",),
    "naturalforces": ("thunderstorm", "storm"),
    "seasonal/newyears": ("explosion",),
}
# Stems that are not the name of what is heard.
RENAMED = {
    "drake": "duck", "gander": "goose", "nandou": "bird", "heron_greatblue_flying": "heron", "xanthia": "insect", "cow_white": "cow",
    "pig_golden": "pig", "pig_golden2": "pig", "sheep_lamb": "lamb", "mountaingoat": "goat", "chimp": "chimpanzee",
    "drum_tomtom_floor": "floor tom", "cymbal_crash": "crash cymbal", "drumkit": "drum kit", "Washing-machine": "washing machine",
    "scissors_small_closed": "scissors", "scissors_small_open": "scissors", "rubberduck": "rubber duck",
    "mallet_metal": "hammer", "saw": "hand saw", "lightningbolt": "thunder",
    "kettle": "boiling kettle", "bottle": "bottle", "glass": "clinking glass", "vacuum_cleaner": "vacuum cleaner",
}  # fmt: skip
# Beginning of a sample's name → nouns; the first that fits counts.
SAMPLE_NOUNS = {
    "ambi_choir": ("choir", "vocal", "singing voice", "voice"), "ambi_piano": ("piano", "keyboard"), "ambi_glass": ("bowed glass",),
    "bass_": ("synth bass", "bass", "synthetic bass"), "bd_": ("kick drum", "bass drum", "drum", "percussion"),
    "drum_bass": ("kick drum", "bass drum", "drum", "percussion"), "drum_heavy_kick": ("kick drum", "bass drum", "drum"),
    "drum_cowbell": ("cowbell", "percussion"), "drum_cymbal": ("cymbal", "hi-hat", "percussion"),
    "drum_splash": ("splash cymbal", "cymbal"),
    "drum_roll": ("snare drum", "drum roll", "drum"), "drum_snare": ("snare drum", "side drum", "drum"), "drum_tom": ("tom drum", "drum"),
    "elec_bell": ("bell",), "elec_beep": ("electronic beeps",), "elec_triangle": ("triangle",), "elec_chime": ("chimes",),
    "elec_cymbal": ("cymbal",), "elec_snare": ("electric snare", "snare drum", "drum"),
    "elec_hi_snare": ("electric snare", "snare drum", "drum"),
    "elec_soft_kick": ("kick drum", "drum"), "elec_hollow_kick": ("kick drum", "drum"), "guit_": ("guitar", "electric guitar"),
    "loop_amen": ("drum loop", "drum beat", "drum kit"), "loop_breakbeat": ("drum loop", "drum beat", "drum kit"),
    "loop_compus": ("drum loop", "drum beat"), "loop_tabla": ("tabla", "hand drum", "drum"), "loop_3d_printer": ("motor", "machine"),
    "misc_burp": ("burp",), "misc_crow": ("crow", "bird", "animal"), "perc_bell": ("bell",), "perc_door": ("door", "slamming door"),
    "perc_snap": ("finger snap",), "perc_till": ("cash register",), "sn_": ("snare drum", "side drum", "drum"),
    "tabla_": ("tabla", "hand drum", "drum", "percussion"), "vinyl_hiss": ("hiss", "vinyl hiss"), "vinyl_scratch": ("vinyl scratch",),
}  # fmt: skip
THEME_NOUNS = {
    "alarm-clock-elapsed": ("alarm clock", "beeping alarm"), "bell": ("bell",), "camera-shutter": ("camera", "camera shutter"),
    "phone-incoming-call": ("telephone", "phone ringing"), "phone-outgoing-busy": ("telephone", "busy tone"),
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    path: Path
    nouns: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.nouns[0]


def stamps() -> list[Recording]:
    found = []
    for kind, nouns in KINDS.items():
        for path in sorted((STAMPS / kind).rglob("*.ogg")):
            stem = path.stem
            if "_desc" in stem or stem.split("_")[-1] in ("arttools",):
                continue
            own = RENAMED.get(stem, stem.replace("_", " ").lower())
            found.append(Recording(path, tuple(dict.fromkeys((own, *nouns)))))
    return found


def samples() -> list[Recording]:
    found = []
    for path in sorted(SAMPLES.glob("*.flac")):
        nouns = next((n for start, n in SAMPLE_NOUNS.items() if path.stem.startswith(start)), None)
        if nouns:
            found.append(Recording(path, nouns))
    return found


def theme() -> list[Recording]:
    return [Recording(THEME / f"{stem}.oga", nouns) for stem, nouns in THEME_NOUNS.items()]


def find() -> list[Recording]:
    missing = [name for name, folder in zip(PACKAGES, (STAMPS, SAMPLES, THEME), strict=True) if not folder.is_dir()]
    if missing:
        raise SystemExit(f"recordings are missing; install them with: apt-get install {' '.join(missing)}")
    return [*stamps(), *samples(), *theme()]
