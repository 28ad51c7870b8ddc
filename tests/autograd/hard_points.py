#!/usr/bin/env python3
"""hard_points.py: writes the expected first and second derivatives with which
test_hard_points.c compares. Run it by hand in this folder when operators are added
or cases change:

    python3 hard_points.py | xz -9e >hard_points.txt.xz

It needs PyTorch 2.15 (BSD-3-Clause) and mpmath 1.3 (BSD-3-Clause); `make check`
needs neither. The calls are those of gradient_samples.def, those that
test_gradients.c makes from the signatures of operators, and those of EXTRA. Their
leaves get the numbers of VARIANTS instead of random numbers. The expected values
are computed by PyTorch in float64, with the function that the operator table names
or that OTHERS has. If EXACT has a function, mpmath computes them with 120 digits.
All inputs are float32 numbers, so that the values are valid for both dtypes.
"""
import math
import pathlib
import re
import sys
import warnings

import mpmath as mp
import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)
HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parent.parent / "lib" / "ops"
INF = math.inf
TRACE = len(sys.argv) > 1

POINTS = [0, 1e-30, -1e-30, 1, -1, 0.5, -0.5, 2.25, -2.25, 20.5, -40.5, 88, -88,
          89, -89, 104, -104, 710, -710, INF, -INF, 1e-4, -1e-4, -80]
FEW = [0, 1e-30, 1, -1, 0.5, -2.5, 20.5, 89, -89, 710, -710, INF, -INF]
FEWER = [0, 1, -2.5, 89, -INF]
VARIANTS = {
    "points": POINTS,
    "cross": FEW,     # all pairs of numbers, for calls with two leaves
    "cross3": FEWER,  # all triples, for calls with three leaves
    "plain": [0],     # random numbers
    "zero": [0],
    "constant": [2],
    "equal": [2, 3, 2, 2, 3, 2, 0, 1],
    "rows": [0, 0, 0, 2, 2, 2, 1, 0, 3, 5, 0, 0, -1, 2, 0.5],
    "tiny": [0, 1e-30, -1e-30, 1, 0.5],
    "wide": [88, -104, 0, 710, -1, -710, 104, 1, -89],
    "infinite": [1, INF, 2, -INF, 0.5, 3, 0],
    "nan": [1, math.nan, 3, 2, 0.5],
    "least": [-INF, -INF, 0, -INF, -INF, 1, 2, -INF],
}
SHIFT = 3  # offset in the list of numbers for the second leaf of a call; the
           # third has twice the offset
WEIGHTS = [1, 0.5, -2, 0.75, 1.25]   # weights of the output's elements: its
                                     # cotangents
AGAIN = [1, -0.5, 2, 1.5]            # weights of the gradients' elements, for
                                     # second derivatives


def f32(x):
    return float(torch.tensor(x, dtype=torch.float64).float())


# ---- the operator table -------------------------------------------------------

class Row:
    def __init__(self, name, signature):
        self.name, self.torch, self.kernel, self.rows = name, None, False, False
        self.flags = ""
        self.args = []
        for part in re.split(r"[;,]", signature.split("->")[0]):
            part = part.strip()
            if not part:
                continue
            m = re.match(r"(\w+)(\?)?(?:\s*:\s*([\w|]+))?(?:\s*=\s*(.*))?", part)
            self.args.append((m[1], bool(m[2]), m[3] or "tensor", m[4]))


def read_table():
    rows = {}
    for path in sorted(TABLE.glob("*/*.def"), key=lambda p: p.name):
        text = re.sub(r"\n[ \t]+", " ", path.read_text())
        row = None
        for line in text.split("\n"):
            word, _, rest = line.partition(" ")
            rest = rest.strip()
            if word == "op":
                m = re.match(r"(\w+)\((.*)\)(.*)", rest)
                row = rows[m[1]] = Row(m[1], m[2])
            elif row and word == "torch":
                row.torch = rest.split()
            elif row and word == "kernel":
                row.kernel = rest
            elif row and word == "rows":
                row.rows = True
            elif row and word == "flags":
                row.flags = rest.split()
    return rows


def read_samples():
    text = (HERE / "gradient_samples.def").read_text()
    return re.findall(r'\{"([^"]+)", "([^"]*)"\}', text)


def by_signature(row):
    words = []
    for name, optional, kind, default in row.args:
        if optional or default is not None:
            break
        for k, word in (("tensor", "p2,3"), ("tensors", "T2,3;2,3"),
                        ("number", "q1.5"), ("float", "f0.5"), ("int", "i1"),
                        ("dims", "d1"), ("bool", "b1")):
            if k in kind.split("|") or kind == "row" and k == "tensor":
                words.append(word)
                break
        else:
            return None
    return " ".join(words)


# ---- arguments from words: as words.h -------------------------------------------

class Call:
    def __init__(self, words, variant):
        self.state, self.variant = 99, variant
        self.leaves, self.values = [], []
        for word in words.split():
            self.values.append(self.read(word))

    def draw(self, low, high):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) \
            % 2**64
        return low + (high - low) * float(self.state >> 11) * 2.0**-53

    def tensor(self, kind, shape, bound):
        n = math.prod(shape)
        ranges = {"p": (0.5, 2), "k": (0.5, 2), "u": (0.1, 0.9), "g": (1.2, 3)}
        low, high = ranges.get(kind, (-2, 2))
        number = [1.0 if kind == "o" else self.draw(low, high)
                  for _ in range(n)]
        if kind == "x":
            return torch.tensor([i % (bound or 1) for i in range(n)],
                                dtype=torch.int64).reshape(shape)
        if kind == "I":
            last = shape[-1] if shape else 1
            return torch.tensor([i % last + 1 for i in range(n)],
                                dtype=torch.int32).reshape(shape)
        if kind == "m":
            return torch.tensor([i % 3 != 1 for i in range(n)],
                                dtype=torch.bool).reshape(shape)
        if kind not in "cok":
            if self.variant != "plain":
                number = self.fill(len(self.leaves), n)
        x = torch.tensor([f32(v) for v in number],
                         dtype=torch.float64).reshape(shape)
        if kind in "cok":
            return x
        x.requires_grad_()
        self.leaves.append(x)
        return x

    def fill(self, leaf, n):
        if self.variant == "cross":
            few = FEWER if n == len(FEWER)**3 else FEW
            return [few[i // len(few)**leaf % len(few)] for i in range(n)]
        values = VARIANTS[self.variant]
        shift = 0 if self.variant == "equal" else SHIFT * leaf
        return [values[(i + shift) % len(values)] for i in range(n)]

    def read(self, word):
        kind, rest = word[0], word[1:]

        def dims(text):
            return [int(d) for d in text.split(",") if d]
        if kind in "SLNItpugckoxm":
            shape, _, bound = rest.partition("<")
            x = self.tensor(kind, dims(shape), int(bound or 0))
            eye = torch.eye(x.shape[-1], dtype=torch.float64) \
                if kind in "SL" else None
            return (x @ x.mT + eye if kind == "S" else
                    x.tril() + 2 * eye if kind == "L" else
                    x.log_softmax(-1) if kind == "N" else x)
        if kind == "T":
            return [self.tensor("t", dims(s), 0) for s in rest.split(";")]
        if kind == "X":
            parts = [s.partition("<") for s in rest.split(";")]
            return [self.tensor("x", dims(s), int(b)) for s, _, b in parts]
        if kind == "F":
            return [float(v) for v in rest.split(",")]
        if kind in "in":
            return int(rest)
        if kind in "fq":
            return float(rest)
        if kind == "d":
            return tuple(dims(rest))
        if kind == "s":
            return rest
        if kind == "b":
            return rest == "1"
        if kind == "y":
            return torch.float64
        return None


# ---- what PyTorch calls it --------------------------------------------------------

def functions_of(row):
    for name in row.torch or [row.name]:
        if name.startswith("nn.functional."):
            f = getattr(F, name[14:], None)
        elif name.startswith("Tensor."):
            f = getattr(torch.Tensor, name[7:], None)
        else:
            f = torch
            for part in name.split("."):
                f = getattr(f, part, None)
        if callable(f):
            yield f


def one(dims):
    return dims[0] if isinstance(dims, tuple) and len(dims) == 1 else dims


def attempt(row, values):
    """Calls the PyTorch function with positional, then with named arguments."""
    errors = []
    if row.name in OTHERS:
        try:
            return OTHERS[row.name](*values)
        except (RuntimeError, IndexError) as error:
            raise ValueError(str(error)) from None
    for f in functions_of(row):
        for shape in (lambda v: v, one):
            given = [shape(v) for v in values]
            names = [a[0] for a in row.args]
            required = sum(1 for a in row.args if not a[1] and a[3] is None)
            by_name = {n: v for n, v in list(zip(names, given))[required:]
                       if v is not None}
            for call in (lambda: f(*given[:required], **by_name),
                         lambda: f(*given)):
                try:
                    return call()
                except (TypeError, ValueError, RuntimeError, IndexError,
                        NotImplementedError) as error:
                    if "different" in str(error) or "derivative" in str(error):
                        raise ValueError(str(error)) from None
                    errors.append(str(error).split("\n")[0])
    raise ValueError("; ".join(dict.fromkeys(errors))[:300] or "no function")


def shaped(weights, x):
    n = x.numel()
    return torch.tensor([weights[i % len(weights)] for i in range(n)],
                        dtype=torch.float64).reshape(x.shape)


def dot(x, weights):
    return (x * shaped(weights, x)).sum()


def derivatives(f, leaves, output):
    """Returns first and second derivatives of f's output by each leaf."""
    y = f()
    if isinstance(y, (tuple, list)):
        y = y[output]
    y = y.double()
    along = shaped(WEIGHTS, y).requires_grad_()
    first = torch.autograd.grad((y * along).sum(), leaves, create_graph=True,
                                allow_unused=True) \
        if y.requires_grad else [None] * len(leaves)
    def fresh(x):
        return torch.zeros_like(x, requires_grad=False)

    def filled(given, leaves):
        return [fresh(x) if g is None else fresh(x) + g.detach()
                for g, x in zip(given, leaves)]
    all_leaves = leaves + [along]
    second = [None] * len(all_leaves)
    parts = [dot(g, AGAIN) for g in first if g is not None and g.requires_grad]
    if parts:
        try:
            second = torch.autograd.grad(sum(parts), all_leaves,
                                         allow_unused=True)
        except RuntimeError as error:
            NO_SECOND.setdefault(str(error)[:60], set()).add(CURRENT[0])
            return filled(first, leaves), None
    return filled(first, leaves), filled(second, all_leaves)


CURRENT, NO_SECOND = [""], {}
OTHERS = {}
EXACT = {}
EXTRA = []
SKIP = {}
PAIRS, EXCEPT = {}, {}
CRASHES, ZERO, LIMITS, POSITIVE = set(), set(), {}, set()
exec((HERE / "hard_cases.py").read_text())


# ---- exact values -------------------------------------------------------------------

def exact(name, x, first, second):
    """Replaces PyTorch's derivatives by mpmath's of EXACT[name] where finite."""
    g, h, along = first[0], second[0], second[1]
    for i, v in enumerate(x.tolist()):
        d1 = d2 = math.nan
        if math.isinf(v) and name in LIMITS:
            d1, d2 = LIMITS[name][v < 0]
        elif v == 0 and name == "i0e":
            continue  # the function has a kink here
        elif math.isfinite(v) and (v > 0 or name not in POSITIVE):
            mp.mp.dps = 60 if name in POSITIVE else 200
            if name in PAIRS:
                d1, d2 = PAIRS[name](mp.mpf(v))
            step = v * mp.mpf(10)**-15 if name in POSITIVE else \
                mp.mpf(10)**-60
            if name in EXACT:
                d1 = mp.diff(EXACT[name], mp.mpf(v), 1, h=step)
                d2 = mp.diff(EXACT[name], mp.mpf(v), 2, h=step)
        w, a = WEIGHTS[i % len(WEIGHTS)], AGAIN[i % len(AGAIN)]
        g[i], h[i], along[i] = float(d1 * w), float(d2 * w * a), float(d1 * a)


# ---- the cases -----------------------------------------------------------------------

def pointwise(row):
    return row.kernel and not row.rows and \
        not re.search(r"\br(sum|max|min|mean|prod|argmax|argmin)\(", row.kernel)


def cases(rows, samples):
    seen = set()
    for name, words in samples:
        seen.add(name.split()[0])
        yield name, words
    yield from EXTRA
    for name, row in rows.items():
        if name not in seen and "nograd" not in row.flags:
            words = by_signature(row)
            if words is not None:
                yield name, words


def variants_of(row, words):
    leaves = [w for w in words.split() if w[0] in "tpug"]
    plain = all(re.match(r"[tpug]\d+(,\d+)*$", w) for w in leaves)
    if pointwise(row) and plain and len(set(w[1:] for w in leaves)) == 1 and \
            not re.search(r"(^| )[cokxmTX]", words):
        n = len(leaves)
        size = {1: len(POINTS), 2: len(FEW)**2, 3: len(FEWER)**3}.get(n)
        if size:
            words = re.sub(r"(^| )[tpug][\d,]+", rf"\g<1>t{size}", words)
            yield words, "points" if n == 1 else "cross"
            return
    for variant in VARIANTS:
        if variant not in ("points", "cross", "cross3"):
            yield words, variant


def numbers(x):
    return " ".join("0" if v == 0 else format(v, ".11g")
                    for v in x.flatten().tolist())


def main():
    rows, out, failed = read_table(), [], {}
    out += ["# Made by hard_points.py. Values: PyTorch 2.15 (BSD-3-Clause, "
            "pytorch.org) in float64",
            "# and mpmath 1.3 (BSD-3-Clause, mpmath.org); numbers computed by "
            "them, no text of theirs.",
            "# case NAME@OUTPUT VARIANT WORDS; g: first derivatives by each leaf; "
            "h: second ones."]
    for name, values in VARIANTS.items():
        out.append(f"variant {name} " + " ".join(repr(f32(v)) for v in values))
    done = set()
    for name, words in cases(rows, read_samples()):
        op, _, output = name.partition(" ")
        row = rows.get(op)
        if row is None or "nograd" in row.flags or op in SKIP or \
                (row.torch is None and "inner" in row.flags and
                 op not in OTHERS):
            continue
        for shaped_words, variant in variants_of(row, words):
            if words in EXCEPT.get(op, ()) or (op, variant) in CRASHES or not allowed(op, variant) or \
                    (name, shaped_words, variant) in done:
                continue
            done.add((name, shaped_words, variant))
            if TRACE:
                print(name, shaped_words, variant, file=sys.stderr, flush=True)
            CURRENT[0] = op
            call = Call(shaped_words, variant)
            if not call.leaves:
                continue
            try:
                first, second = derivatives(lambda: attempt(row, call.values),
                                            call.leaves, int(output or 0))
            except (ValueError, RuntimeError, IndexError) as error:
                failed.setdefault(name + " | " + shaped_words, []).append(
                    (variant, str(error)[:200]))
                continue
            if op in ZERO and variant in ("zero", "constant"):
                for x in first + (second or []):
                    x.nan_to_num_(0, INF, -INF)
            if (op in EXACT or op in PAIRS) and variant == "points" and " " not in shaped_words:
                exact(op, call.leaves[0], first, second)
            out.append(f"case {name.replace(' ', '@')} {variant} "
                       f"{shaped_words}")
            out += [f"g {numbers(g)}" for g in first]
            out += [f"h {numbers(h)}" for h in second or [] if h.numel() <= 256]
    print("\n".join(out))
    print(NO_SECOND, file=sys.stderr)
    for key, why in failed.items():
        print(key, len(why), why[0], file=sys.stderr)


main()
