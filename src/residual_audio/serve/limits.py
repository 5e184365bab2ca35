"""How much a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Options, option


@dataclass(frozen=True)
class Limits(Options):
    """Of one server; every one is kept before the work begins that it limits."""

    upload: int = option(20, "Largest upload, in MB.", least=1, flag="max-upload")
    seconds: int = option(60, "Longest sound that may be uploaded, in seconds.", least=1, flag="max-seconds")
    rate: int = option(200, "Requests per second that one address may make; a burst may have twice as many.", least=1, flag="max-rate")
    waiting: int = option(128, "Requests that may wait for the model; further ones are told to come back.", least=1, flag="max-waiting")
    jobs: int = option(8, "Trainings that may wait.", least=1, flag="max-jobs")

    @property
    def bytes(self) -> int:
        return self.upload * 1_000_000


# Of single fields, in characters or items: what no honest page exceeds.
JSON_BYTES = 65_536
TEXTS, TEXT, LABEL = 16, 200, 80
GAINS, LOUDEST, STRENGTH = 4096, 10.0, 4.0
ROWS, DATASETS, ADAPTERS = 5000, 50, 200
KEPT_BYTES, KEPT_SOUNDS = 96_000_000, 1000  # of uploaded sounds in memory; the oldest go first
