"""Families of operators: the groups special, order, linalg, window, norm, loss and
sequence of bench/compare."""

import torch
from torch import nn
from torch.nn import functional as F

from compare_basic import passes

special = torch.special
linalg = torch.linalg


def work(group, draw, *operators, back=None):
    """Returns the workloads of one group. draw(*size) makes their tensors. An operator
    is a pair of a name and a function of these tensors. If back is True, the
    workloads compute gradients; if it is None, there are two workloads for each
    operator: NAME without gradients and NAME_back with them."""
    found = {}
    for name, operator in operators:
        for recorded in (False, True) if back is None else (back,):
            def ready(*size, operator=operator, recorded=recorded):
                tensors = draw(*size)
                return passes(lambda: operator(*tensors), tensors, recorded)
            suffix = "_back" if recorded and back is None else ""
            found[f"{group}.{name}{suffix}"] = ready
    return found


def wants(x):
    return x.requires_grad_()


# ---- special ------------------------------------------------------------------

def below(size, limit):
    return torch.rand(size) * limit, torch.rand(size) * limit


SPECIAL = work(
    "special", below,
    ("tanh", lambda a, b: torch.tanh(a)),
    ("sin", lambda a, b: torch.sin(a)),
    ("log1p", lambda a, b: torch.log1p(a)),
    ("expm1", lambda a, b: torch.expm1(a)),
    ("gelu", lambda a, b: F.gelu(a)),
    ("erf", lambda a, b: torch.erf(a)),
    ("erfc", lambda a, b: torch.erfc(a)),
    ("erfinv", lambda a, b: torch.erfinv(a)),
    ("erfcx", lambda a, b: special.erfcx(a)),
    ("ndtri", lambda a, b: special.ndtri(a)),
    ("log_ndtr", lambda a, b: special.log_ndtr(a)),
    ("logit", lambda a, b: torch.logit(a)),
    ("sinc", lambda a, b: torch.sinc(a)),
    ("lgamma", lambda a, b: torch.lgamma(a)),
    ("digamma", lambda a, b: torch.digamma(a)),
    ("trigamma", lambda a, b: torch.polygamma(1, a)),
    ("i0", lambda a, b: torch.i0(a)),
    ("i1e", lambda a, b: special.i1e(a)),
    ("bessel_j0", lambda a, b: special.bessel_j0(a)),
    ("bessel_j1", lambda a, b: special.bessel_j1(a)),
    ("bessel_y0", lambda a, b: special.bessel_y0(a)),
    ("bessel_k0", lambda a, b: special.modified_bessel_k0(a)),
    ("pow", torch.pow),
    ("atan2", torch.atan2),
    ("hypot", torch.hypot),
    ("xlogy", torch.xlogy),
    ("igamma", torch.igamma),
    ("zeta", special.zeta),
    back=False)


# ---- order --------------------------------------------------------------------

KINDS = 1000


def values(*size):
    return (torch.rand(*size),)


def kinds(*size):
    return (torch.randint(0, KINDS, size),)


def bounds(count, bound_count):
    return torch.rand(count), torch.sort(torch.rand(bound_count))[0]


def places(rows, columns):
    a = torch.rand(rows, columns)
    return a, torch.randint(0, rows, (rows, columns))


def anywhere(count):
    a = torch.rand(count)
    return a, torch.randint(0, count, (count,)), a > 0.5


def reduced(how):
    return lambda a, b: torch.scatter_reduce(a, 0, b, a, how)


ORDER = {
    **work(
        "order", bounds,
        ("searchsorted", lambda a, b: torch.searchsorted(b, a)),
        ("bucketize", torch.bucketize), back=False),
    **work(
        "order", values,
        ("median", torch.median),
        ("median_rows", lambda a: torch.median(a, 1)),
        ("kthvalue", lambda a: torch.kthvalue(a, a.shape[1] // 4, 1)),
        ("quantile", lambda a: torch.quantile(a, 0.9, 1)),
        ("histc", lambda a: torch.histc(a, 100, 0, 1)),
        ("cummax_rows", lambda a: torch.cummax(a, 1)),
        ("cummax_columns", lambda a: torch.cummax(a, 0)),
        ("cumprod_rows", lambda a: torch.cumprod(a, 1)),
        ("logcumsumexp_rows", lambda a: torch.logcumsumexp(a, 1)),
        ("logcumsumexp_columns", lambda a: torch.logcumsumexp(a, 0)),
        ("argsort_rows", lambda a: torch.argsort(a, 1)),
        ("sort_columns", lambda a: torch.sort(a, 0)),
        ("topk", lambda a: torch.topk(a, 100)),
        ("argmax_rows", lambda a: torch.argmax(a, 1)), back=False),
    **work(
        "order", kinds,
        ("mode", lambda a: torch.mode(a, 1)),
        ("unique", torch.unique),
        ("unique_counts", lambda a: torch.unique(a, True, True, True)),
        ("bincount", torch.bincount), back=False),
    **work(
        "order", anywhere,
        ("nonzero", lambda a, b, c: torch.nonzero(c)),
        ("masked_select", lambda a, b, c: torch.masked_select(a, c)),
        ("masked_fill", lambda a, b, c: torch.masked_fill(a, c, 0)),
        ("take", lambda a, b, c: torch.take(a, b)),
        ("put", lambda a, b, c: torch.put(a, b, a, True)),
        ("index_put", lambda a, b, c: torch.index_put(a, (b,), a, True)),
        back=False),
    **work(
        "order", places,
        ("scatter", lambda a, b: torch.scatter(a, 0, b, a)),
        ("scatter_sum", reduced("sum")), ("scatter_prod", reduced("prod")),
        ("scatter_amax", reduced("amax")), ("scatter_mean", reduced("mean")),
        back=False),
}


# ---- linalg -------------------------------------------------------------------

def matrices(batch, n):
    a = torch.rand(batch, n, n) + n * torch.eye(n)
    return a, a @ a.mT, torch.rand(batch, n, 8)


LINALG = work(
    "linalg", matrices,
    ("cholesky", lambda a, b, c: linalg.cholesky(b)),
    ("lu_factor", lambda a, b, c: linalg.lu_factor(a)),
    ("qr", lambda a, b, c: linalg.qr(a)),
    ("eigh", lambda a, b, c: linalg.eigh(b)),
    ("eigvalsh", lambda a, b, c: linalg.eigvalsh(b)),
    ("svd", lambda a, b, c: linalg.svd(a)),
    ("svdvals", lambda a, b, c: linalg.svdvals(a)),
    ("solve", lambda a, b, c: linalg.solve(a, c)),
    ("solve_triangular",
     lambda a, b, c: linalg.solve_triangular(a, c, upper=True)),
    ("lstsq", lambda a, b, c: linalg.lstsq(a, c)),
    ("inv", lambda a, b, c: linalg.inv(a)),
    ("pinv", lambda a, b, c: linalg.pinv(a)),
    ("det", lambda a, b, c: linalg.det(a)),
    ("slogdet", lambda a, b, c: linalg.slogdet(a)),
    ("matrix_exp", lambda a, b, c: linalg.matrix_exp(b)),
    ("matrix_power", lambda a, b, c: linalg.matrix_power(a, 7)),
    back=False)


# ---- window -------------------------------------------------------------------

def lines(n, c, length):
    return (wants(torch.rand(n, c, length)),)


def images(n, c, h):
    return (wants(torch.rand(n, c, h, h)),)


def solids(n, c, h):
    return (wants(torch.rand(n, c, h, h, h)),)


def weighted(inputs, *kernel, groups=False):
    def draw(n, c, h):
        w = torch.rand(c, 1 if groups else c, *kernel)
        return *inputs(n, c, h), wants(w)
    return draw


def pooled(n, c, h):
    a, at = F.max_pool2d(torch.rand(n, c, h, h), 2, return_indices=True)
    return wants(a), at


def padded(mode):
    return lambda a: F.pad(a, (1, 1, 1, 1), mode)


def resized(mode):
    return lambda a: F.interpolate(a, scale_factor=2, mode=mode)


WINDOW = {
    **work("window", weighted(lines, 3),
           ("conv1d", lambda a, w: F.conv1d(a, w, padding=1))),
    **work("window", weighted(images, 1, 1),
           ("conv2d_1x1", lambda a, w: F.conv2d(a, w))),
    **work("window", weighted(images, 3, 3, groups=True),
           ("conv2d_depthwise",
            lambda a, w: F.conv2d(a, w, padding=1, groups=a.shape[1]))),
    **work("window", weighted(images, 3, 3),
           ("conv2d_strided",
            lambda a, w: F.conv2d(a, w, padding=1, stride=2))),
    **work("window", weighted(solids, 3, 3, 3),
           ("conv3d", lambda a, w: F.conv3d(a, w, padding=1))),
    **work("window", weighted(lines, 4),
           ("conv_transpose1d",
            lambda a, w: F.conv_transpose1d(a, w, padding=1, stride=2))),
    **work("window", weighted(images, 4, 4),
           ("conv_transpose2d",
            lambda a, w: F.conv_transpose2d(a, w, padding=1, stride=2))),
    **work("window", lines, ("max_pool1d", lambda a: F.max_pool1d(a, 2))),
    **work("window", solids,
           ("max_pool3d", lambda a: F.max_pool3d(a, 2)),
           ("avg_pool3d", lambda a: F.avg_pool3d(a, 2))),
    **work("window", pooled,
           ("max_unpool2d", lambda a, at: F.max_unpool2d(a, at, 2))),
    **work("window", images,
           ("max_pool2d_3x3", lambda a: F.max_pool2d(a, 3, 2, 1)),
           ("adaptive_avg_pool2d", lambda a: F.adaptive_avg_pool2d(a, 1)),
           ("adaptive_avg_pool2d_7", lambda a: F.adaptive_avg_pool2d(a, 7)),
           ("adaptive_max_pool2d_7", lambda a: F.adaptive_max_pool2d(a, 7)),
           ("pad", padded("constant")),
           ("pad_reflect", padded("reflect")),
           ("pad_replicate", padded("replicate")),
           ("pad_circular", padded("circular")),
           ("nearest", resized("nearest")),
           ("bilinear", resized("bilinear")),
           ("bicubic", resized("bicubic")),
           ("shrink_bilinear",
            lambda a: F.interpolate(a, (24, 24), mode="bilinear")),
           ("unfold", lambda a: F.unfold(a, 3, padding=1)),
           ("pixel_shuffle", lambda a: F.pixel_shuffle(a, 2))),
}


# ---- norm ---------------------------------------------------------------------

def with_weights(*size):
    """Returns input, weight and bias of a normalisation over size[1] channels."""
    shape = size if len(size) == 2 else (*size, size[2])
    return (wants(torch.rand(*shape)), wants(torch.ones(size[1])),
            wants(torch.zeros(size[1])))


def rows(*size):
    return with_weights(*size)[:2]


def alone(*size):
    return with_weights(*size)[:1]


NORM = {
    **work("norm", with_weights,
           ("batch_norm_eval", lambda a, w, b: F.batch_norm(a, b, w, w, b)),
           back=False),
    **work("norm", with_weights,
           ("group_norm", lambda a, w, b: F.group_norm(a, 8, w, b)),
           ("instance_norm", lambda a, w, b: F.instance_norm(
               a, weight=w, bias=b)),
           ("layer_norm", lambda a, w, b: F.layer_norm(a, w.shape, w, b))),
    **work("norm", rows,
           ("rms_norm", lambda a, w: F.rms_norm(a, w.shape, w))),
    **work("norm", alone,
           ("local_response_norm", lambda a: F.local_response_norm(a, 5)),
           ("normalize", F.normalize),
           ("softmax", lambda a: torch.softmax(a, 1)),
           ("log_softmax", lambda a: torch.log_softmax(a, 1))),
}


# ---- loss ---------------------------------------------------------------------

def guesses(n, c):
    return wants(torch.rand(n, c)), torch.rand(n, c), torch.rand(n, c)


def classes(n, c):
    return wants(torch.rand(n, c)), torch.randint(0, c, (n,))


def signs(n, c):
    return wants(torch.rand(n, c)), torch.rand(n, c).round() * 2 - 1


def pairs(n, c):
    return *guesses(n, c)[:2], torch.ones(n)


def two(operator, **options):
    return lambda a, b, *rest: operator(a, b, **options)


LOSS = {
    **work("loss", classes,
           ("cross_entropy", F.cross_entropy),
           ("smoothed", two(F.cross_entropy, label_smoothing=0.1)),
           ("nll", F.nll_loss),
           ("multi_margin", F.multi_margin_loss), back=True),
    **work("loss", guesses,
           ("soft_labels", two(F.cross_entropy)),
           ("mse", two(F.mse_loss)),
           ("l1", two(F.l1_loss)),
           ("smooth_l1", two(F.smooth_l1_loss)),
           ("huber", two(F.huber_loss)),
           ("bce", two(F.binary_cross_entropy)),
           ("bce_logits", two(F.binary_cross_entropy_with_logits)),
           ("kl_div", two(F.kl_div, reduction="batchmean")),
           ("gaussian_nll", F.gaussian_nll_loss),
           ("poisson_nll", two(F.poisson_nll_loss)),
           ("multilabel_soft_margin", two(F.multilabel_soft_margin_loss)),
           ("triplet_margin", F.triplet_margin_loss), back=True),
    **work("loss", signs,
           ("soft_margin", F.soft_margin_loss),
           ("hinge_embedding", F.hinge_embedding_loss), back=True),
    **work("loss", pairs,
           ("cosine_embedding", F.cosine_embedding_loss), back=True),
}


# ---- sequence -----------------------------------------------------------------

def heads(batch, time):
    return tuple(wants(torch.rand(batch, 4, time, 32)) for _ in range(3))


def squares(batch, n):
    return torch.rand(batch, n, n), torch.rand(batch, n, n)


def points(count, features):
    return torch.rand(count, features), torch.rand(count, features)


def net(name, make):
    """Returns two workloads of a layer: forward only, and with gradients."""
    def ready(recorded):
        def open_(batch, time, features):
            layer = make(features)
            a = wants(torch.rand(batch, time, features))

            def forward():
                out = layer(a)
                return out[0] if isinstance(out, tuple) else out
            return passes(forward, [a, *layer.parameters()], recorded)
        return open_
    return {f"sequence.{name}": ready(False),
            f"sequence.{name}_back": ready(True)}


SEQUENCE = {
    **work("sequence", heads,
           ("attention", F.scaled_dot_product_attention),
           ("causal", lambda a, b, c: F.scaled_dot_product_attention(
               a, b, c, is_causal=True))),
    **work("sequence", squares,
           ("einsum_batch", lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
           ("einsum_outer", lambda a, b: torch.einsum("bij,bkj->bik", a, b)),
           ("einsum_trace", lambda a, b: torch.einsum("bij,bij->b", a, b)),
           ("tensordot", lambda a, b: torch.tensordot(
               a, b, ([1, 2], [1, 2]))), back=False),
    **work("sequence", points,
           ("cdist", torch.cdist),
           ("cdist_l1", lambda a, b: torch.cdist(a, b, 1)), back=False),
    **net("rnn", lambda n: nn.RNN(n, n, batch_first=True)),
    **net("gru", lambda n: nn.GRU(n, n, batch_first=True)),
    **net("lstm", lambda n: nn.LSTM(n, n, batch_first=True)),
    **net("lstm2", lambda n: nn.LSTM(n, n, 2, batch_first=True,
                                     bidirectional=True)),
    **net("encoder", lambda n: nn.TransformerEncoderLayer(
        n, 4, 4 * n, 0.0, batch_first=True)),
}

WORK = {**SPECIAL, **ORDER, **LINALG, **WINDOW, **NORM, **LOSS, **SEQUENCE}
