"""What every figure keeps to: letters for the last row, Okabe and Ito's colors, one color a method everywhere."""

import colorsys
import html
import re

from PIL import Image

from packbook.figures import OKABE_ITO, series

SMALLEST = 10  # points on a figure 8 inches wide: 33 pixels of 1920 × 1080
METHODS = {  # how figures name what `series` knows
    "SPFHP": "spfhp", "LPFHP": "lpfhp", "NNLSHP": "nnlshp", "extended NNLSHP": "ennlshp", "optimal": "optimal",
    "unpacked": "unpacked", "next-fit": "next_fit", "pad to the maximum": "maximum",
    "random batches": "random", "buckets": "buckets", "sorted windows": "megabatches", "all sorted": "sorted",
    "packed": "packed",
}  # fmt: skip
_TEXT = r'<!-- ([^>]*?) -->\s*<g [^>]*?transform="translate\([^)]*\)(?: rotate\([^)]*\))? scale\(([\d.]+)'


def style_faults(svg: str) -> list[str]:
    """Sentences about what breaks the style in a figure that matplotlib wrote with text as paths."""
    texts = [(html.unescape(text), 100 * float(scale)) for text, scale in re.findall(_TEXT, svg)]
    if len(texts) != svg.count("<!-- "):
        raise ValueError(f"{svg.count('<!-- ')} texts are in the figure, but the sizes of {len(texts)} were found.")
    faults = [f"{text!r} has {size:.1f} points" for text, size in texts if size < SMALLEST - 0.01]
    faults += [f"{text} has no comma before its thousands" for text, _ in texts if re.fullmatch(r"\d{4,}", text)]
    colors = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))
    faults += [f"{color} is not in the palette" for color in sorted(colors) if not _allowed(color)]
    for text, _ in texts:
        if text in METHODS and (color := series(METHODS[text])["color"].lower()) not in colors:
            faults.append(f"{text} is not drawn in its color {color}")
    return faults


def touches_the_edge(picture: Image.Image) -> bool:
    """Whether something stands on the outermost ten pixels, as where a title is cut off."""
    ring = picture.copy()
    ring.paste(255, (10, 10, ring.width - 10, ring.height - 10))
    return ring.getextrema()[0] < 250


def _allowed(color: str) -> bool:
    """Whether it is one of Okabe and Ito's, a light tint of one, or nearly gray."""
    hue, saturation, value = _hsv(color)
    near = any(abs(hue - _hsv(known)[0]) < 10 / 360 for known in OKABE_ITO)
    return color.upper() in OKABE_ITO or saturation <= 0.15 or (near and saturation < 0.5 and value > 0.8)


def _hsv(color: str) -> tuple[float, float, float]:
    return colorsys.rgb_to_hsv(*(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)))
