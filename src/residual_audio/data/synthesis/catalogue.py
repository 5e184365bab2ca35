"""Every synthetic class by name: how it is rendered and which nouns a caption may use for it.

Three tasks. ``source`` is what ``tiny`` is trained on. ``timbre`` and ``voice`` are held out: their sounds
combine expressions that sources only show one at a time, on carriers that no source has, so a model
trained on sources finds them hard for a reason that can be heard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from . import noisy, tonal
from .dsp import Array, Random
from .targets import TIMBRES, VOICES, timbre, voice

Render = Callable[[Random], tuple[Array, frozenset[str]]]


@dataclass(frozen=True)
class SoundClass:
    """One class: ``render`` draws a clip, ``nouns`` name it in captions (the first is its label).

    ``variety``: how many times the usual number of clips it takes to show all that the class can do.
    """

    nouns: tuple[str, ...]
    render: Render
    variety: int = 1

    @property
    def label(self) -> str:
        return self.nouns[0]


SOURCES = (
    SoundClass(("pure tone", "sine wave", "test tone"), tonal.pure_tone, variety=2),
    SoundClass(("synthesizer", "electronic instrument", "synth tone"), tonal.synthesizer, variety=4),
    SoundClass(("buzzer", "electric buzzer", "buzzing tone"), tonal.buzzer, variety=3),
    SoundClass(("organ", "church organ", "organ chord"), tonal.organ, variety=2),
    SoundClass(("rising chirp", "upward sweep", "rising sweep"), partial(tonal.chirp, kind="rising")),
    SoundClass(("falling chirp", "downward sweep", "falling sweep"), partial(tonal.chirp, kind="falling")),
    SoundClass(("plucked string", "guitar", "harp"), tonal.plucked_string),
    SoundClass(("piano", "struck string", "grand piano"), tonal.piano),
    SoundClass(("bell", "church bell", "gong"), tonal.bell),
    SoundClass(("glockenspiel", "music box", "chimes"), tonal.glockenspiel),
    SoundClass(("siren", "police siren", "ambulance"), tonal.siren),
    SoundClass(("engine", "motor", "car engine"), tonal.engine),
    SoundClass(("bird", "chirping bird", "birdsong"), tonal.bird),
    SoundClass(("alarm clock", "beeping alarm", "electronic beeps"), tonal.alarm),
    SoundClass(("telephone", "ringing telephone", "phone ringing"), tonal.telephone),
    SoundClass(("buzzing insect", "bee", "mosquito"), tonal.insect),
    SoundClass(("mains hum", "transformer hum", "electric hum"), tonal.hum),
    SoundClass(("whistle", "whistling", "tin whistle"), tonal.whistle, variety=2),
    SoundClass(("laser zap", "video game laser", "ray gun"), tonal.zap),
    SoundClass(("white noise", "static", "hiss"), noisy.white_noise),
    SoundClass(("pink noise", "waterfall", "shower"), noisy.pink_noise),
    SoundClass(("deep rumble", "brown noise", "distant traffic"), noisy.rumble),
    SoundClass(("ticking clock", "metronome", "ticking"), noisy.ticking),
    SoundClass(("kick drum", "bass drum", "drum beat"), noisy.kick_drum),
    SoundClass(("snare drum", "side drum", "rattling drum"), noisy.snare_drum),
    SoundClass(("cymbal", "hi-hat", "crash cymbal"), noisy.cymbal),
    SoundClass(("hand clapping", "clapping", "applause"), noisy.hand_clap),
    SoundClass(("footsteps", "walking", "someone walking"), noisy.footsteps),
    SoundClass(("knocking", "door knock", "knocking on wood"), noisy.knocking),
    SoundClass(("rain", "rainfall", "raindrops"), noisy.rain),
    SoundClass(("wind", "howling wind", "gusts of wind"), noisy.wind),
    SoundClass(("puffs of air", "bellows", "air pump"), noisy.breath),
    SoundClass(("sea waves", "surf", "ocean"), noisy.waves),
    SoundClass(("thunder", "thunderstorm", "rolling thunder"), noisy.thunder),
    SoundClass(("helicopter", "rotor blades", "chopper"), noisy.helicopter),
    SoundClass(("crickets", "cicadas", "chirping crickets"), noisy.crickets),
    SoundClass(("water drops", "dripping water", "dripping tap"), noisy.water_drops),
    SoundClass(("crackling fire", "campfire", "fireplace"), noisy.fire),
    SoundClass(("sawing", "hand saw", "sawing wood"), noisy.sawing),
    SoundClass(("geiger counter", "crackling clicks", "radiation counter"), noisy.geiger),
)

TASKS: dict[str, tuple[SoundClass, ...]] = {
    "source": SOURCES,
    "timbre": tuple(SoundClass((f"{c} {a} instrument",), partial(timbre, colour_word=c, attack_word=a)) for c, a in TIMBRES),
    "voice": tuple(SoundClass((f"{word} voice",), partial(voice, kind=word)) for word in VOICES),
}
