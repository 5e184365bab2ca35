"""Small pictures of coloured shapes, in several formats."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 60), "blue": (40, 60, 210)}
SHAPES = ("square", "circle", "triangle")


def picture(shape: str, colour: str, seed: int, size: tuple[int, int] = (60, 48)) -> Image.Image:
    """A shape somewhere on a grainy ground."""
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(90, 160, (size[1], size[0], 3), dtype=np.uint8))
    draw, (x, y), r = ImageDraw.Draw(image), rng.integers(14, min(size) - 13, 2).tolist(), int(rng.integers(10, 16))
    if shape == "square":
        draw.rectangle((x - r, y - r, x + r, y + r), fill=COLOURS[colour])
    elif shape == "circle":
        draw.ellipse((x - r, y - r, x + r, y + r), fill=COLOURS[colour])
    else:
        draw.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=COLOURS[colour])
    return image


def folder(root: Path, each: int = 4) -> Path:
    """``root/red_square/0.png`` … : every shape in its own colour."""
    for colour, shape in zip(COLOURS, SHAPES, strict=True):
        place = root / f"{colour}_{shape}"
        place.mkdir()
        for i in range(each):
            picture(shape, colour, i).save(place / f"{i}.{'png' if i % 2 else 'jpg'}")
    return root


def files(root: Path) -> list[Path]:
    """Seven files: several formats, sizes, proportions and modes."""
    plans = [("a.png", (60, 48), "RGB"), ("b.jpg", (48, 90), "RGB"), ("c.png", (33, 33), "L"), ("d.webp", (200, 64), "RGB"),
             ("e.png", (70, 50), "P"), ("f.png", (50, 41), "RGBA"), ("g.bmp", (36, 120), "RGB")]  # fmt: skip
    paths = []
    for i, (name, size, mode) in enumerate(plans):
        image = picture(SHAPES[i % 3], list(COLOURS)[i % 3], i, size).convert(mode)
        if mode == "RGBA":
            image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, size[0]).astype(np.uint8), (size[1], 1))))
        image.save(root / name)
        paths.append(root / name)
    return paths
