"""The General MIDI programs and drums that the soundfonts play, and the words that are true of each.

``PROGRAMS``: program number → :class:`Instrument`. ``nouns`` name the instrument (the first is its class), ``families`` what it belongs to,
``words`` how its sound is made; ``low``–``high`` is its natural range in MIDI notes.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a caption may call the members of a family, from the plainest name on.
FAMILIES = {
    "keyboard": ("keyboard", "keyboard instrument", "keys"),
    "mallet": ("mallet", "mallet instrument", "mallet percussion", "tuned percussion"),
    "organ": ("organ", "organ pipes", "electric or pipe organ"),
    "guitar": ("guitar", "guitar string", "acoustic or electric guitar"),
    "bass": ("bass", "bass instrument", "electric or acoustic bass", "bass line"),
    "string": ("string", "strings", "bowed string instrument", "string instrument"),
    "brass": ("brass", "brass instrument", "horn section"),
    "reed": ("reed", "reed instrument", "woodwind reed"),
    "flute": ("flute", "flute instrument", "wooden or metal flute"),
    "vocal": ("vocal", "voice", "singing voice", "choir"),
    "synth": ("synthesizer", "electronic instrument", "synth tone"),
    "plucked": ("plucked instrument", "plucked string"),
    "drum": ("drum", "percussion", "percussion instrument"),
    "effect": ("sound effect",),
}


@dataclass(frozen=True)
class Instrument:
    nouns: tuple[str, ...]
    families: tuple[str, ...]
    words: tuple[str, ...]
    low: int
    high: int
    weight: float = 1.0

    @property
    def label(self) -> str:
        return self.nouns[0]

    @property
    def family_nouns(self) -> tuple[str, ...]:
        return tuple(noun for family in self.families for noun in FAMILIES[family])


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in cell.split(",") if word.strip())


def _parse(row: str) -> tuple[int, Instrument]:
    number, nouns, families, words, span, weight = (cell.strip() for cell in row.split("|"))
    low, high = span.split("-")
    return int(number), Instrument(_words(nouns), _words(families), _words(words), int(low), int(high), float(weight))


# number | nouns | families | words | natural range | how many clips, relative to others
TABLE = """
0 | piano, grand piano, acoustic piano | keyboard | struck, acoustic | 21-108 | 2
1 | bright piano, piano, acoustic piano | keyboard | struck, acoustic | 21-108 | 1
2 | electric grand piano, electric piano | keyboard | struck, electronic | 21-108 | 1
3 | honky tonk piano, piano, out of tune piano | keyboard | struck, acoustic | 21-108 | 1
4 | electric piano, rhodes piano | keyboard | struck, electronic | 28-103 | 2
5 | digital piano, electric piano, fm piano | keyboard | struck, electronic | 28-103 | 2
6 | harpsichord, cembalo | keyboard | plucked, acoustic | 29-89 | 1
7 | clavinet, clavi, funky keyboard | keyboard | plucked, electronic | 36-96 | 1
8 | celesta, celeste | mallet, keyboard | struck, acoustic | 60-108 | 1
9 | glockenspiel, orchestra bells | mallet | struck, acoustic | 72-108 | 1.5
10 | music box | mallet | plucked, acoustic | 60-96 | 1
11 | vibraphone, vibes | mallet | struck, acoustic | 53-89 | 2
12 | marimba | mallet | struck, acoustic | 45-96 | 2
13 | xylophone | mallet | struck, acoustic | 65-108 | 2
14 | tubular bells, chimes, bell | mallet | struck, acoustic | 60-77 | 1
15 | dulcimer, hammered dulcimer | mallet, plucked | struck, acoustic | 50-84 | 0.7
16 | drawbar organ, hammond organ, electric organ | organ | electronic | 36-96 | 2
17 | percussive organ, electric organ, jazz organ | organ | electronic | 36-96 | 2
18 | rock organ, electric organ, rotary organ | organ | electronic | 36-96 | 2
19 | church organ, pipe organ | organ | blown, acoustic | 24-108 | 2
20 | reed organ, harmonium | organ | blown, acoustic | 36-96 | 1
21 | accordion | reed | blown, acoustic | 53-89 | 0.7
22 | harmonica, mouth organ | reed | blown, acoustic | 60-84 | 0.7
23 | bandoneon, tango accordion | reed | blown, acoustic | 53-89 | 0.5
24 | classical guitar, nylon guitar, acoustic guitar | guitar, plucked | plucked, acoustic | 40-84 | 2.5
25 | steel guitar, acoustic guitar, folk guitar | guitar, plucked | plucked, acoustic | 40-84 | 2.5
26 | jazz guitar, electric guitar | guitar, plucked | plucked, electronic | 40-86 | 1.5
27 | clean guitar, electric guitar | guitar, plucked | plucked, electronic | 40-86 | 1.5
28 | muted guitar, electric guitar, palm muted guitar | guitar, plucked | plucked, electronic | 40-86 | 1
29 | overdriven guitar, electric guitar, rock guitar | guitar | plucked, electronic | 40-86 | 1
30 | distorted guitar, electric guitar, heavy guitar | guitar | plucked, electronic | 40-86 | 1
31 | guitar harmonics, guitar harmonic | guitar, plucked | plucked | 40-86 | 0.7
32 | upright bass, double bass, plucked double bass, acoustic bass | bass | plucked, acoustic | 28-67 | 2
33 | fingered bass, bass guitar, electric bass | bass | plucked, electronic | 28-67 | 2
34 | picked bass, bass guitar, electric bass | bass | plucked, electronic | 28-67 | 2
35 | fretless bass, bass guitar, electric bass | bass | plucked, electronic | 28-67 | 1.5
36 | slap bass, bass guitar, electric bass | bass | plucked, electronic | 28-67 | 1.5
37 | popped bass, slap bass, bass guitar, electric bass | bass | plucked, electronic | 28-67 | 1
38 | synth bass, synthetic bass, analog bass | bass, synth | electronic | 24-72 | 2.5
39 | hard synth bass, synth bass, synthetic bass | bass, synth | electronic | 24-72 | 2.5
40 | violin, fiddle | string | bowed, acoustic | 55-100 | 2
41 | viola | string | bowed, acoustic | 48-88 | 1.5
42 | cello, violoncello | string | bowed, acoustic | 36-79 | 3
43 | contrabass, double bass, bowed double bass, string bass | string | bowed, acoustic | 28-60 | 3
44 | tremolo strings | string | bowed, acoustic | 36-96 | 0.7
45 | pizzicato strings, pizzicato | string, plucked | plucked, acoustic | 36-96 | 0.7
46 | harp, concert harp | plucked | plucked, acoustic | 24-103 | 1
47 | timpani, kettle drum | drum | struck, acoustic | 36-57 | 1
48 | string ensemble, string orchestra, violins | string | bowed, acoustic | 36-96 | 1.5
49 | slow strings, string ensemble, string orchestra | string | bowed, acoustic | 36-96 | 1
50 | synth strings, string machine | synth, string | electronic | 36-96 | 0.5
51 | soft synth strings, synth strings | synth, string | electronic | 36-96 | 0.5
52 | choir aahs, people singing, choral singing | vocal | sung, acoustic | 43-81 | 3
53 | voice oohs, people singing, humming voices | vocal | sung, acoustic | 43-81 | 3
54 | synth voice, synthetic voice, electronic choir | vocal, synth | sung, electronic | 43-81 | 3
55 | orchestra hit | string, brass | struck | 48-72 | 0.4
56 | trumpet | brass | blown, acoustic | 54-86 | 2
57 | trombone | brass | blown, acoustic | 34-74 | 3
58 | tuba | brass | blown, acoustic | 28-60 | 1.5
59 | muted trumpet, trumpet with a mute | brass | blown, acoustic | 54-86 | 1
60 | french horn, horn | brass | blown, acoustic | 34-77 | 3
61 | brass section, brass ensemble | brass | blown, acoustic | 36-86 | 1.5
62 | synth brass | brass, synth | electronic | 36-86 | 0.7
63 | soft synth brass, synth brass | brass, synth | electronic | 36-86 | 0.7
64 | soprano saxophone, saxophone, sax | reed | blown, acoustic | 56-87 | 1.5
65 | alto saxophone, saxophone, sax | reed | blown, acoustic | 49-80 | 2
66 | tenor saxophone, saxophone, sax | reed | blown, acoustic | 44-75 | 2
67 | baritone saxophone, saxophone, sax | reed | blown, acoustic | 36-68 | 1.5
68 | oboe | reed | blown, acoustic | 58-91 | 3
69 | cor anglais, english horn, alto oboe | reed | blown, acoustic | 52-81 | 3
70 | bassoon | reed | blown, acoustic | 34-72 | 3
71 | clarinet, high clarinet | reed | blown, acoustic | 50-91 | 3
72 | piccolo, piccolo flute | flute | blown, acoustic | 74-108 | 1
73 | concert flute, transverse flute, orchestral flute | flute | blown, acoustic | 60-96 | 4
74 | recorder, block flute | flute | blown, acoustic | 60-96 | 1.5
75 | pan flute, pan pipes | flute | blown, acoustic | 60-96 | 1.5
76 | blown bottle, bottle | flute | blown | 48-84 | 0.7
77 | shakuhachi, bamboo flute | flute | blown, acoustic | 55-84 | 1.5
78 | whistle, whistling | effect | blown | 60-96 | 0.5
79 | ocarina | flute | blown, acoustic | 60-84 | 1
80 | square lead, square wave | synth | electronic | 36-96 | 0.5
81 | sawtooth lead, sawtooth wave | synth | electronic | 36-96 | 0.5
82 | calliope lead, steam organ | synth | electronic | 36-96 | 0.4
83 | chiff lead | synth | electronic | 36-96 | 0.3
84 | charang lead | synth | electronic | 36-96 | 0.3
85 | voice lead, synth voice, synthetic voice | vocal, synth | sung, electronic | 43-81 | 1.5
86 | fifths lead | synth | electronic | 36-96 | 0.3
87 | bass and lead, synth bass, synthetic bass | bass, synth | electronic | 24-72 | 1
88 | new age pad, synth pad | synth | electronic | 36-96 | 0.3
89 | warm pad, synth pad | synth | electronic | 36-96 | 0.3
90 | polysynth, synth pad | synth | electronic | 36-96 | 0.3
91 | choir pad, synthetic voice, electronic choir | vocal, synth | sung, electronic | 43-81 | 1.5
92 | bowed glass, synth pad | synth | bowed, electronic | 36-96 | 0.3
93 | metal pad, synth pad | synth | electronic | 36-96 | 0.3
94 | halo pad, synth pad | synth | electronic | 36-96 | 0.3
95 | sweep pad, synth pad | synth | electronic | 36-96 | 0.3
98 | crystal, synth bells | synth | electronic | 48-96 | 0.3
99 | atmosphere, synth pad | synth | electronic | 36-96 | 0.3
104 | sitar | plucked | plucked, acoustic | 48-77 | 0.7
105 | banjo | plucked | plucked, acoustic | 48-84 | 0.8
106 | shamisen | plucked | plucked, acoustic | 50-79 | 0.5
107 | koto | plucked | plucked, acoustic | 55-84 | 0.5
108 | kalimba, thumb piano | mallet, plucked | plucked, acoustic | 48-79 | 0.8
109 | bagpipe, bagpipes | reed | blown, acoustic | 36-77 | 0.7
110 | country fiddle, fiddle, violin | string | bowed, acoustic | 55-96 | 0.7
111 | shanai, shehnai | reed | blown, acoustic | 48-72 | 0.6
112 | tinkle bell, small bell | mallet | struck, acoustic | 72-84 | 0.4
113 | agogo, cowbell | drum | struck, acoustic | 60-72 | 0.3
114 | steel drums, steel pan | mallet | struck, acoustic | 52-76 | 0.8
115 | woodblock, wood block | drum | struck, acoustic | 60-72 | 0.3
116 | taiko drum | drum | struck, acoustic | 48-60 | 0.4
117 | melodic tom, tom drum | drum | struck | 48-60 | 0.4
118 | synth drum, electronic drum | drum, synth | struck, electronic | 48-60 | 0.4
119 | reverse cymbal | effect | | 60-60 | 0.2
120 | guitar fret noise, sliding fingers | effect | | 60-60 | 0.2
121 | breath noise, breathing | effect | | 60-60 | 0.2
122 | seashore, sea waves, surf | effect | | 60-60 | 0.3
123 | bird tweet, bird, birdsong | effect | | 60-60 | 0.3
124 | telephone ring, telephone, phone ringing | effect | | 60-60 | 0.3
125 | helicopter, rotor blades | effect | | 60-60 | 0.3
126 | applause, clapping crowd, audience | effect | | 60-60 | 0.3
127 | gunshot, gun shot | effect | | 60-60 | 0.3
"""
PROGRAMS = dict(_parse(row) for row in TABLE.strip().splitlines())

# Two instruments that General MIDI lacks, from their nearest relatives played below their range, where a real one would be.
EXTRA = (
    (71, Instrument(("bass clarinet", "low clarinet"), ("reed",), ("blown", "acoustic"), 34, 65, 3)),
    (70, Instrument(("contrabassoon", "double bassoon"), ("reed",), ("blown", "acoustic"), 22, 53, 3)),
)

# note number of the drum kit | nouns
DRUM_TABLE = """
35 | kick drum, bass drum
36 | kick drum, bass drum
37 | rimshot, side stick
38 | snare drum, side drum
39 | hand clap, clapping
40 | electric snare, snare drum
41 | floor tom, tom drum
42 | closed hi-hat, hi-hat
43 | floor tom, tom drum
44 | pedal hi-hat, hi-hat
45 | low tom, tom drum
46 | open hi-hat, hi-hat
47 | middle tom, tom drum
48 | high tom, tom drum
49 | crash cymbal, cymbal
50 | high tom, tom drum
51 | ride cymbal, cymbal
52 | chinese cymbal, cymbal
53 | ride bell, cymbal
54 | tambourine
55 | splash cymbal, cymbal
56 | cowbell
57 | crash cymbal, cymbal
58 | vibraslap
60 | bongo, hand drum
61 | bongo, hand drum
62 | conga, hand drum
63 | conga, hand drum
64 | conga, hand drum
65 | timbale
66 | timbale
69 | cabasa, shaker
70 | maracas, shaker
73 | guiro, scraper
74 | guiro, scraper
75 | claves
76 | woodblock, wood block
77 | woodblock, wood block
78 | cuica
79 | cuica
80 | triangle
81 | triangle
"""
DRUMS = {
    int(number): Instrument(_words(nouns), ("drum",), ("struck",), int(number), int(number), 0.5)
    for number, nouns in (row.split("|") for row in DRUM_TABLE.strip().splitlines())
}
