"""What a stored picture becomes on a page: in the dark its ink is light and its colors are the
same, and panels side by side are pieces, which stand one below the other on a phone."""

import itertools

import numpy as np
from PIL import Image
from scipy import ndimage

from vit_theory.figures import columns_of

PAGE_INK = np.array([213, 218, 224])  # the ink of figures.INK in the dark
GAP = 12  # between panels, in points of the picture; between words there are fewer
TICK = 12  # points that a tick of an axis is long
BLACK = 90  # a spine is this dark, smoothed edges included


def opened(image):
    """A picture as numbers, (height, width, 3), on white."""
    picture = image.convert("RGBA")
    ground = Image.new("RGBA", picture.size, "white")
    return np.asarray(Image.alpha_composite(ground, picture).convert("RGB")).astype(np.int16)


def runs(line):
    """Where a row of yes and no says yes -> [(start, end), ...]."""
    edges = np.flatnonzero(np.diff(np.r_[False, line, False].astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def opening(area, size):
    """Those parts of an area in which a square of this size has room."""
    eroded = ndimage.minimum_filter(area.astype(np.uint8), size)
    return ndimage.maximum_filter(eroded, size) > 0


def without_holes(area):
    """An area with what it encloses, such as the letters on it."""
    labels, _ = ndimage.label(~area)
    rim = np.r_[labels[0], labels[-1], labels[:, 0], labels[:, -1]]
    return area | ~np.isin(labels, np.unique(rim))


def panels(pixels):
    """Panels with a left and a bottom spine -> [(left, top, right, bottom), ...]."""
    dark = pixels.max(2) < BLACK
    height, width = dark.shape
    boxes = []
    for x in np.flatnonzero(dark.sum(0) >= 60).tolist():
        for top, bottom in runs(dark[:, x]):
            if bottom - top < 60:
                continue
            # a spine is thin: a bar or a picture goes on to one side; ticks may stand close
            before = max(0, x - 5)
            after = min(width - 1, x + 5)
            if dark[top:bottom, before].mean() > 0.6 or dark[top:bottom, after].mean() > 0.3:
                continue
            ends = [  # a tick goes on below the bottom spine
                (y, end)
                for y in range(max(0, bottom - TICK), min(height, bottom + 1))
                for start, end in runs(dark[y])
                if start <= x + 2 and end > x + 60
            ]
            if ends and not any(abs(x - box[0]) < 4 and abs(top - box[1]) < 4 for box in boxes):
                low, right = max(ends)
                boxes.append((x, top, right, min(low + 1, bottom)))
    return boxes


def within(box, other):
    """Whether a box lies inside of another one, its spines included."""
    left, top, right, bottom = other
    return left - 4 < box[0] and top - 4 < box[1] and box[2] < right + 4 and box[3] < bottom + 4


def inside_of_any(box, axes):
    return any(within(box, axis) for axis in axes)


def maps(pixels, axes, apart=()):
    """Those panels that are full of colors that mean something: maps and photographs, not curves.
    One that is dark enough decides for all that have no white, and so does a color bar: one of the
    colored rectangles `apart` that stands in no panel."""
    full = []
    dark = []
    solid = 0.0
    for left, top, right, bottom in axes:
        inside = pixels[top : bottom - 3, left + 3 : right]
        if (inside.min(2) < 255).mean() > 0.9:
            full.append((left, top, right, bottom))
            deep = ndimage.uniform_filter((inside.min(2) < 150).astype(float), 9) > 0.99
            solid = max(solid, deep.mean())
        elif (inside.max(2) < BLACK).mean() > 0.25:
            dark.append((left, top, right, bottom))
    bars = [box for box in apart if not inside_of_any(box, axes)]
    return (full if solid > 0.01 or bars else []) + dark


def photographs(pixels):
    """Maps and photographs without spines, and color bars -> [(left, top, right, bottom), ...]."""
    whole = opening(pixels.min(2) < 250, 9)
    boxes = []
    pale = []
    for rows, columns in ndimage.find_objects(ndimage.label(whole)[0]):
        box = columns.start, rows.start, columns.stop, rows.stop
        inside = pixels[rows, columns]
        sides = sorted(inside.shape[:2])
        if sides[0] < 16 or sides[1] < 90:  # a marker, or a piece of a line
            continue
        counts = np.unique(inside.reshape(-1, 3) // 32, axis=0, return_counts=True)[1]
        many = (counts > 0.02 * counts.sum()).sum()
        dark = (inside.max(2) < 128).mean()
        share = (inside.min(2) < 250).mean()
        if share > (0.55 if dark > 0.3 else 0.9) and many > 1 and (dark > 0.1 or many > 4):
            boxes.append(box)
        else:
            pale.append(box)
    # pictures of one row are of one kind
    rows = tuple(boxes)
    for box in pale:
        if any(beside(box, picture) for picture in rows):
            boxes.append(box)
    return completed(boxes)


def beside(box, other):
    """Whether two boxes have one size and stand in one row."""
    return all(abs(box[side] - other[side]) < 3 for side in (1, 3)) and (
        abs(box[2] - box[0] - other[2] + other[0]) < 3
    )


def completed(boxes):
    """Boxes, those whole again that white has cut off from the others of their column and row."""
    whole_boxes = []
    for box in boxes:
        for other in boxes:
            whole = box[0], box[1], box[0] + other[2] - other[0], box[1] + other[3] - other[1]
            column = abs(box[0] - other[0]) < 3 and within(box, whole)
            if column and sum(beside(whole, one) for one in boxes) > 2:
                box = whole
                break
        whole_boxes.append(box)
    return whole_boxes


def colored(pixels, axes):
    """Panels with spines -> (they, rectangles of maps and photographs): a band or a bar inside of a
    panel with curves is neither, while three of them are tiles."""
    apart = photographs(pixels)
    boxes = maps(pixels, axes, apart)
    for axis in axes:
        inside = [box for box in apart if within(box, axis)]
        if axis not in boxes and len(inside) < 3:
            apart = [box for box in apart if box not in inside]
    return axes, boxes + apart


def kept(pixels):
    """Where a picture keeps its colors in the dark: maps, photographs, areas of one color ->
    (mask, rectangles of maps and photographs, panels with spines)."""
    axes, boxes = colored(pixels, panels(pixels))
    chroma = pixels.max(2) - pixels.min(2)
    mask = without_holes(opening((chroma > 30) & (pixels.min(2) < 160), 7))
    for left, top, right, bottom in boxes:
        mask[top:bottom, left:right] = True
    return mask, boxes, axes


def darkened(pixels, mask):
    """A picture for a dark page: transparent ground, light ink, colors as they are."""
    chroma = pixels.max(2) - pixels.min(2)
    color = np.clip(chroma / 80, 0, 1)  # how much of a pixel is color; the rest is ink on paper
    share = np.maximum(color, 1 - pixels.max(2) / 255)
    hue = 255 - (255 - pixels) / np.maximum(color, 1e-3)[..., None]
    hue = np.clip(hue, 0, 255)
    hue += 0.15 * (255 - hue)  # thin lines are lighter, to be seen
    mixed = (color / np.maximum(share, 1e-3))[..., None]
    ink = mixed * hue + (1 - mixed) * PAGE_INK
    ink[mask] = pixels[mask]
    share[mask] = 1
    return Image.fromarray(np.dstack([ink, 255 * share]).round().astype(np.uint8), "RGBA")


def labeled(pixels, edge, left):
    """Whether something stands between an edge and a panel: numbers of an axis, or its name."""
    return (pixels[:, edge : max(edge, left - 16)].min(2) < 200).any()


def cuts(pixels, boxes, axes):
    """Where a picture falls apart into panels side by side -> (top, bottom, [x, ...], the box of
    the axis that they share, or None); what stands above and below, such as one legend for all, is
    a piece of its own. None where panels belong together: something goes across."""
    height, width = pixels.shape[:2]
    wide = [box for box in [*axes, *boxes] if box[2] - box[0] >= 60]
    columns = columns_of(wide)
    if not 2 <= len(columns) <= 4 or any(right - left < 150 for left, right in columns):
        return None
    ink = pixels.min(2) < 255
    blocks = runs(ink.any(1))
    first = min(box[1] for box in wide)
    last = max(box[3] for box in wide)
    tops = [0] + [start - 2 for start, _ in blocks[1:2] if blocks[0][1] < first]
    # a legend below has one line or several
    ends = [end + 2 for (_, end), (start, _) in itertools.pairwise(blocks) if start > last]
    bottoms = [height, *reversed(ends)]
    for top, bottom in ((top, bottom) for top in tops for bottom in bottoms):
        # the words of a title have room between them
        title = blocks[0][1] if top == 0 and blocks[0][1] < first else 0
        across = ink[:title].any(0)
        free = ~(ink[top:bottom].any(0) | ndimage.maximum_filter1d(across, GAP))
        places = []
        for (_, end), (begin, _) in itertools.pairwise(columns):
            bands = [(b - a, end + (a + b) // 2) for a, b in runs(free[end:begin]) if b - a >= GAP]
            if bands:
                widest = max(bands)
                beside = any(end < box[0] < begin for box in boxes)  # a color bar
                # before the name of the next axis, not behind it
                near = next(band for band in bands if 2 * band[0] >= widest[0])
                places.append((widest if beside else near)[1])
        if len(places) == len(columns) - 1:
            edges = zip([0, *places], columns, strict=True)
            named = [labeled(pixels[first:last], edge, left) for edge, (left, _) in edges]
            if named == sorted(named):
                return top, bottom, places, None
            # what shares an axis stands to the right of its numbers
            shared = named[0] and not any(named[1:])
            return (top, bottom, places, (first, columns[0][0] + 3, last)) if shared else None
    return None


def crops(size, cut):
    """The pieces of a picture -> [(box, whether it has a line of its own), ...]."""
    width, height = size
    if cut is None:
        return [((0, 0, width, height), False)]
    top, bottom, places, _ = cut
    edges = itertools.pairwise([0, *places, width])
    columns = [((left, top, right, bottom), False) for left, right in edges]
    above = [((0, 0, width, top), True)] if top else []
    below = [((0, bottom, width, height), True)] if bottom < height else []
    return above + columns + below


def alone(image, cut):
    """The axis that panels share, by itself: neither the title over it nor the numbers below."""
    top, bottom, _, (first, edge, last) = cut
    only = Image.new(image.mode, (edge, bottom - top), (255, 255, 255, 0)[: len(image.getbands())])
    start = max(top, first - TICK)
    stop = min(bottom, last + TICK)
    only.paste(image.crop((0, start, edge, stop)), (0, start - top))
    return only


def trimmed(image, box):
    """A box without the white to the left and right of what is in it."""
    ink = np.flatnonzero((opened(image.crop(box)).min(2) < 255).any(0))
    return box[0] + max(int(ink[0]) - 4, 0), box[1], min(box[0] + int(ink[-1]) + 4, box[2]), box[3]


def delivered(path, shown):
    """Write what a stored picture becomes beside it -> (pieces, whether it has a twin for the dark,
    the width of the axis that its panels share, or 0); a piece is (ending of its name, width and
    height in the page, whether it has a line of its own). `shown` is the picture's width there."""
    image = Image.open(path)
    pixels = opened(image)
    mask, boxes, axes = kept(pixels)
    cut = cuts(pixels, boxes, axes)
    curves = shown > 560 and bool(set(axes) - set(boxes))
    if cut and cut[3] and not curves:  # a row of maps is read as a whole
        cut = None
    if cut is None and not boxes:
        return [], False, 0
    dark = darkened(pixels, mask) if boxes else None
    scale = shown / image.width
    pieces = []
    for number, (box, own_line) in enumerate(crops(image.size, cut)):
        box = trimmed(image, box) if own_line else box
        ending = f"-{number}" if cut else ""
        if cut:
            image.crop(box).save(path.with_stem(f"{path.stem}{ending}"), optimize=True)
        if dark:
            dark.crop(box).save(path.with_stem(f"{path.stem}{ending}-dark"), optimize=True)
        size = int(scale * (box[2] - box[0])), round(scale * (box[3] - box[1]))
        pieces.append((ending, *size, own_line))
    if cut is None or cut[3] is None:
        return pieces, dark is not None, 0
    alone(image, cut).save(path.with_stem(f"{path.stem}-axis"), optimize=True)
    if dark:
        alone(dark, cut).save(path.with_stem(f"{path.stem}-axis-dark"), optimize=True)
    return pieces, dark is not None, round(scale * cut[3][1])
