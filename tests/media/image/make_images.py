#!/usr/bin/env python3
"""Makes images.tar.xz: image files of every kind, with Pillow's pixels, and
results of torchvision's transforms.

    python3 tests/media/image/make_images.py tests/media/image/images.tar.xz

Needs Pillow, numpy, torch and torchvision. All images are made here from
formulas, so the licence is the project's. Made with Pillow 13.0.0, torch 2.15.0
and torchvision 0.29.2 on an AVX2 CPU (with it, torchvision resizes uint8 in
fixed point).

    files/*.png, *.jpg     images that are read
    bad/*                  files that are rejected
    pixels.safetensors     for each file Pillow's pixels, (H, W, C), uint8, EXIF
                           orientation applied; NAME.16: (H, W, C), int32, of
                           16-bit files
    transforms.safetensors the inputs u8, f32, and results, named as the rows of
                           test_transforms.c
"""
import io, json, os, random, struct, subprocess, sys, tempfile, zlib
import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from torchvision.utils import make_grid

PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
          (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y, step x, step y


def picture(h, w, channels, top):
    """Smooth values 0 .. top with all channels different."""
    y, x = np.mgrid[0:h, 0:w]
    planes = [(np.sin(x / (3.0 + c) + c) + np.cos(y / (4.0 - c / 2) + 2 * c) + 2) / 4
              for c in range(channels)]
    return np.rint(np.stack(planes, -1) * top).astype(np.int64)


# ---- PNG -------------------------------------------------------------------

def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + \
        struct.pack('>I', zlib.crc32(name + data))


def scanlines(values, bits, which_filter):
    """Packs rows of samples, with a filter byte; each filter type in turn."""
    h, w, c = values.shape
    out, before = b'', None
    for y in range(h):
        row = values[y].reshape(-1)
        if bits == 16:
            raw = row.astype('>u2').tobytes()
        elif bits == 8:
            raw = row.astype('u1').tobytes()
        else:
            text = ''.join(format(v, '0%db' % bits) for v in row)
            text += '0' * (-len(text) % 8)
            raw = bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
        step = max(1, bits * c // 8)
        up = before or bytes(len(raw))
        kind = (y + which_filter) % 5
        line = bytearray()
        for i, v in enumerate(raw):
            a = raw[i - step] if i >= step else 0
            b, d = up[i], up[i - step] if i >= step else 0
            p = a + b - d
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - d), 2, d))[2]
            line.append((v - [0, a, b, (a + b) // 2, near][kind]) & 255)
        out += bytes([kind]) + bytes(line)
        before = raw
    return out


def png(values, bits, kind, interlace=False, extra=b'', after=b''):
    h, w, _ = values.shape
    data = b''
    if interlace:
        for x0, y0, dx, dy in PASSES:
            part = values[y0::dy, x0::dx]
            if part.size:
                data += scanlines(part, bits, 0)
    else:
        data = scanlines(values, bits, 1)
    packed = zlib.compress(data, 9)
    half = len(packed) // 2
    return b'\x89PNG\r\n\x1a\n' + \
        chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, bits, kind, 0, 0, interlace)) + \
        extra + chunk(b'IDAT', packed[:half]) + chunk(b'IDAT', packed[half:]) + \
        after + chunk(b'IEND', b'')


def tiff(orientation, big=False):
    order = '>' if big else '<'
    return (b'MM\0*' if big else b'II*\0') + \
        struct.pack(order + 'IHHHIHH', 8, 1, 0x112, 3, 1, orientation, 0) + b'\0\0\0\0'


KINDS = {0: ('grey', 1), 2: ('rgb', 3), 3: ('palette', 1), 4: ('greyalpha', 2), 6: ('rgba', 4)}
DEPTHS = {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}


def make_png(files, values16):
    palette = bytes((i * 37 + j * 91) % 256 for i in range(256) for j in range(3))
    for kind, (name, channels) in KINDS.items():
        for bits in DEPTHS[kind]:
            for interlace in (False, True):
                v = picture(13, 11, channels, (1 << bits) - 1)
                extra = chunk(b'gAMA', struct.pack('>I', 45455))
                if kind == 3:
                    extra += chunk(b'PLTE', palette[:3 << bits])
                key = 'png-%s-%d%s' % (name, bits, '-interlaced' if interlace else '')
                files[key + '.png'] = png(v, bits, kind, interlace, extra)
                if bits == 16:
                    values16[key + '.png'] = v
    v = picture(5, 7, 1, 255)
    files['png-palette-trns.png'] = png(
        v, 8, 3, False, chunk(b'PLTE', palette) + chunk(b'tRNS', bytes(range(0, 200))))
    v = picture(5, 7, 1, 15)
    files['png-grey-4-trns.png'] = png(v, 4, 0, False, chunk(b'tRNS', struct.pack('>H', int(v[2, 2, 0]))))
    v = picture(5, 7, 3, 255)
    files['png-rgb-trns.png'] = png(
        v, 8, 2, False, chunk(b'tRNS', struct.pack('>HHH', *[int(x) for x in v[1, 1]])))
    files['png-1x1.png'] = png(picture(1, 1, 3, 255), 8, 2, True)
    files['png-text.png'] = png(picture(3, 4, 3, 255), 8, 2, False,
                                chunk(b'tEXt', b'Comment\0hello') + chunk(b'zTXt', b'a\0\0' + zlib.compress(b'b' * 99)))
    files['png-exif6.png'] = png(picture(4, 6, 3, 255), 8, 2, False, chunk(b'eXIf', tiff(6)))
    files['png-exif8-after.png'] = png(picture(4, 6, 3, 255), 8, 2, False, b'', chunk(b'eXIf', tiff(8, True)))


# ---- JPEG ------------------------------------------------------------------

def jpeg(values, **options):
    out = io.BytesIO()
    mode = {1: 'L', 3: 'RGB', 4: 'CMYK'}[values.shape[2]]
    a = values.astype('u1')
    Image.fromarray(a[:, :, 0] if mode == 'L' else a, mode).save(out, 'JPEG', **options)
    return out.getvalue()


def make_jpeg(files):
    v = picture(29, 35, 3, 255)
    for name, sub in (('444', 0), ('422', 1), ('420', 2)):
        files['jpeg-%s.jpg' % name] = jpeg(v, quality=90, subsampling=sub)
        files['jpeg-%s-progressive.jpg' % name] = jpeg(v, quality=75, subsampling=sub, progressive=True)
    files['jpeg-grey.jpg'] = jpeg(picture(17, 19, 1, 255), quality=85)
    files['jpeg-grey-progressive.jpg'] = jpeg(picture(17, 19, 1, 255), quality=85, progressive=True)
    files['jpeg-optimized.jpg'] = jpeg(v, quality=30, optimize=True)
    files['jpeg-restart.jpg'] = jpeg(v, quality=80, restart_marker_blocks=2)
    files['jpeg-1x1.jpg'] = jpeg(picture(1, 1, 3, 255))
    files['jpeg-rgb.jpg'] = jpeg(v, quality=90, keep_rgb=True, subsampling=0)
    for o in range(1, 9):
        files['jpeg-exif%d.jpg' % o] = jpeg(picture(9, 14, 3, 255), quality=95, subsampling=0,
                                            exif=b'Exif\0\0' + tiff(o, o % 2 == 0))


def make_bad(files):
    bad = {}
    good = files['jpeg-420.jpg']
    bad['truncated.jpg'] = good[:len(good) * 2 // 3]
    bad['truncated-progressive.jpg'] = files['jpeg-420-progressive.jpg'][:-40]
    bad['no-end.jpg'] = good[:-2]
    bad['cmyk.jpg'] = jpeg(picture(8, 8, 4, 255))
    bad['truncated.png'] = files['png-rgb-8.png'][:120]
    bad['no-end.png'] = files['png-rgb-8.png'][:-12]
    crc = bytearray(files['png-rgb-8.png'])
    crc[70] ^= 1
    bad['crc.png'] = bytes(crc)
    for name, fmt in (('gif', 'GIF'), ('bmp', 'BMP'), ('tif', 'TIFF'), ('webp', 'WEBP')):
        out = io.BytesIO()
        Image.fromarray(picture(4, 4, 3, 255).astype('u1')).save(out, fmt)
        bad['other.' + name] = out.getvalue()
    huge = png(picture(1, 1, 3, 255), 8, 2)
    bad['huge.png'] = huge[:8] + chunk(b'IHDR', struct.pack('>IIBBBBB', 200000, 200000, 8, 2, 0, 0, 0)) + huge[33:]
    sof = good.index(b'\xff\xc0')
    bad['huge.jpg'] = good[:sof + 5] + struct.pack('>HH', 65000, 65000) + good[sof + 9:]
    return bad


def read_pillow(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode.startswith('I'):  # 16 bits: the high byte
        return (np.array(image).astype(np.int64) >> 8).astype('u1')[:, :, None]
    if image.mode == '1':
        image = image.convert('L')
    if image.mode == 'P' or 'transparency' in image.info:
        image = image.convert('LA' if image.mode == 'L' else
                              'RGBA' if 'transparency' in image.info else 'RGB')
    a = np.array(image)
    return a[:, :, None] if a.ndim == 2 else a


# ---- transforms -------------------------------------------------------------

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def shorten(t):
    """Rounds float32 to 2^-17, so that the archive is small."""
    return torch.round(t * 2 ** 17) / 2 ** 17 if t.dtype == torch.float32 else t


def make_transforms():
    g = torch.Generator().manual_seed(5)
    base = torch.from_numpy(picture(17, 22, 3, 240).astype('u1').transpose(2, 0, 1).copy())
    u8 = (base + torch.randint(0, 16, base.shape, generator=g, dtype=torch.uint8))
    inputs = {'u8': u8, 'f32': shorten(u8.float() / 255 * 0.9 + 0.05)}
    out = dict(inputs)

    def add(name, function, kinds=('u8', 'f32')):
        for kind, image in inputs.items():
            if kind not in kinds:
                continue
            out['%s.%s' % (name, kind)] = shorten(function(image))

    modes = {'nearest': v2.InterpolationMode.NEAREST, 'nearest-exact': v2.InterpolationMode.NEAREST_EXACT,
             'bilinear': v2.InterpolationMode.BILINEAR, 'bicubic': v2.InterpolationMode.BICUBIC}
    for h, w in ((7, 9), (11, 31), (29, 12), (17, 13), (3, 2)):
        for mode, m in modes.items():
            for antialias in (True, False):
                if mode.startswith('nearest') and antialias:
                    continue
                add('resize.%s.%d.%d.%d' % (mode, antialias, h, w),
                    lambda i: F.resize(i, [h, w], m, antialias=antialias),
                    ('u8', 'f32') if h < 12 else ('u8',))
    add('shorter.12', lambda i: F.resize(i, [12], antialias=True))
    add('shorter.14.15', lambda i: F.resize(i, [14], max_size=15, antialias=True))
    add('center_crop.11.14', lambda i: F.center_crop(i, [11, 14]))
    add('center_crop.20.15', lambda i: F.center_crop(i, [20, 15]))
    add('center_crop.24.27', lambda i: F.center_crop(i, [24, 27]))
    add('crop', lambda i: F.crop(i, -3, 5, 12, 30))
    add('resized_crop', lambda i: F.resized_crop(i, 4, 6, 11, 15, [8, 9], antialias=True))
    for mode in ('constant', 'edge', 'reflect', 'symmetric'):
        add('pad.' + mode, lambda i: F.pad(i, [3, 5, 7, 2], fill=0, padding_mode=mode))
    add('flip', F.horizontal_flip)
    add('flip_vertical', F.vertical_flip)
    for angle in (90, 180, 270, 33, -71.5):
        for mode in ('nearest', 'bilinear'):
            for expand in (False, True):
                add('rotate.%g.%s.%d' % (angle, mode, expand),
                    lambda i: F.rotate(i, angle, modes[mode], expand=expand),
                    ('u8', 'f32') if angle == 33 else ('u8',))
    add('rotate_center', lambda i: F.rotate(i, 25.5, modes['bilinear'], center=[4.0, 7.5]))
    add('rotate_fill', lambda i: F.rotate(i, 25.5, modes['nearest'], fill=1.0))
    for mode in ('nearest', 'bilinear'):
        add('affine.' + mode, lambda i: F.affine(i, 17.3, [2.4, -3.1], 1.27, [9.0, -4.5], modes[mode]))
    add('affine_center', lambda i: F.affine(i, -40.2, [1.3, 2.2], 0.61, [3.0, 0.0], modes['bilinear'], center=[3.0, 15.5]))
    for f in (0.0, 0.37, 1.9):
        add('brightness.%g' % f, lambda i: F.adjust_brightness(i, f))
        add('contrast.%g' % f, lambda i: F.adjust_contrast(i, f))
        add('saturation.%g' % f, lambda i: F.adjust_saturation(i, f))
    for f in (-0.5, 0.13):
        add('hue.%g' % f, lambda i: F.adjust_hue(i, f))
    add('grayscale.1', lambda i: F.rgb_to_grayscale(i, 1))
    add('grayscale.3', lambda i: F.rgb_to_grayscale(i, 3))
    add('to_float', lambda i: F.to_dtype(i, torch.float32, scale=True))
    add('normalize', lambda i: F.normalize(F.to_dtype(i, torch.float32, scale=True), MEAN, STD))

    def prepare(i):
        i = F.center_crop(F.resize(i, [14], antialias=True), [11, 11])
        return F.normalize(F.to_dtype(i, torch.float32, scale=True), MEAN, STD)
    add('prepare', prepare)

    def batch(i):
        return torch.stack([i, F.horizontal_flip(i), F.vertical_flip(i)])[:, :, :6, :7]
    add('grid', lambda i: make_grid(batch(i), nrow=2, padding=3, pad_value=1))
    add('grid_grey', lambda i: make_grid(batch(i)[:, :1], nrow=8))
    f = batch(inputs['f32']) * 3 - 1
    out['grid_normalize.f32'] = shorten(make_grid(f, nrow=2, normalize=True))
    out['grid_each.f32'] = shorten(make_grid(f, nrow=2, normalize=True, scale_each=True))
    out['grid_range.f32'] = shorten(make_grid(f, nrow=2, normalize=True, value_range=(-0.5, 1.5)))
    return out


def save(path, tensors):
    names = {'uint8': 'U8', 'float32': 'F32', 'int32': 'I32'}
    header, data = {}, b''
    for name, t in tensors.items():
        a = np.ascontiguousarray(t.numpy() if torch.is_tensor(t) else t)
        raw = a.tobytes()
        data += bytes(-len(data) % a.itemsize)
        header[name] = {'dtype': names[str(a.dtype)], 'shape': list(a.shape),
                        'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def main(target):
    files, values16 = {}, {}
    make_png(files, values16)
    make_jpeg(files)
    pixels = {}
    for name, data in files.items():
        if name in values16:
            pixels[name + '.16'] = values16[name].astype('i4')
            pixels[name] = (values16[name] >> 8).astype('u1')
        else:
            pixels[name] = read_pillow(data)
    # Pillow compares scaled samples with the transparent colour, which is not
    # scaled. This follows the PNG specification.
    v = picture(5, 7, 1, 15)
    pixels['png-grey-4-trns.png'] = np.concatenate(
        [v * 17, (v != v[2, 2, 0]) * 255], -1).astype('u1')
    with tempfile.TemporaryDirectory() as folder:
        for group, entries in (('files', files), ('bad', make_bad(files))):
            os.mkdir(os.path.join(folder, group))
            for name, data in entries.items():
                with open(os.path.join(folder, group, name), 'wb') as f:
                    f.write(data)
        # 4-byte dtypes first: safetensors allows no gap between tensors.
        order = lambda t: dict(sorted(t.items(), key=lambda e: -(e[1].element_size() if torch.is_tensor(e[1]) else e[1].itemsize)))
        save(os.path.join(folder, 'pixels.safetensors'), order(pixels))
        save(os.path.join(folder, 'transforms.safetensors'), order(make_transforms()))
        tar = subprocess.run(['tar', '--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mtime=@0',
                              '-C', folder, '-cf', '-', 'files', 'bad', 'pixels.safetensors', 'transforms.safetensors'],
                             check=True, stdout=subprocess.PIPE).stdout
        with open(target, 'wb') as f:
            f.write(subprocess.run(['xz', '-9e'], input=tar, check=True, stdout=subprocess.PIPE).stdout)
    print(len(files), 'files,', os.path.getsize(target), 'bytes')


main(sys.argv[1])
