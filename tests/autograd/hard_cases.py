# Cases that hard_points.py cannot derive from the operator table; it imports this file.

# For these calls PyTorch crashes with a segmentation fault.
CRASHES = {(op, variant)
           for op in ("grid_sample", "grid_sampler", "grid_sampler_2d",
                      "grid_sampler_3d")
           for variant in ("infinite", "nan", "wide")}

# Operators that are not compared: random operators (dropout), and operators
# for which PyTorch has no function or no derivative (scaled_mm,
# quantized_linear, unique).
SKIP = {"dropout", "scaled_mm", "quantized_linear", "unique",
        "unique_consecutive", "dropout_draw"}

# Factorizations. They get no singular matrices and none with infinities or
# NaN: for these they fail, or their results are too ill-conditioned for any
# dtype.
MATRICES = ("plain",)
BOUND = {op: MATRICES for op in
         "lu lu_unpack lu_solve svd pinverse cholesky_solve cholesky_inverse "
         "triangular_solve logdet solve_square solve_triangle norm_by "
         "matrix_exp".split()}
# Winograd convolutions give NaN if they add infinities of both signs.
BOUND.update({op: ("zero", "constant", "equal", "rows", "tiny", "wide")
              for op in "conv1d conv2d conv3d conv_transpose1d "
              "conv_transpose2d conv_transpose3d".split()})


# Operators in which minus infinity marks masked elements of a row.
LEAST = {"logcumsumexp", "logsumexp", "softmax", "log_softmax", "softmin", "amax",
         "cummax", "scaled_dot_product_attention", "attention_weights", "topk",
         "cross_entropy", "sort"}


def allowed(op, variant):
    if op.startswith("linalg_") and op not in PLAIN:
        return variant in MATRICES
    if variant == "least":
        return op in LEAST
    return variant in BOUND.get(op, set(VARIANTS) - {"plain"})


PLAIN = {"linalg_vander", "linalg_diagonal", "linalg_cross", "linalg_multi_dot"}


# ---- more calls ---------------------------------------------------------------

LOSSES = ("l1_loss", "mse_loss", "kl_div", "smooth_l1_loss", "huber_loss",
          "binary_cross_entropy_with_logits", "poisson_nll_loss",
          "hinge_embedding_loss")
CROSS = f"t{len(FEW)**2} t{len(FEW)**2}"
for loss in LOSSES:
    extra = {"smooth_l1_loss": "f1 ", "huber_loss": "f1 ", "kl_div": "b0 ",
             "binary_cross_entropy_with_logits": "- ",
             "poisson_nll_loss": "b1 b0 f1e-8 ",
             "hinge_embedding_loss": "f1 "}.get(loss, "")
    EXTRA.append((loss, f"{CROSS} {extra}snone"))
EXTRA += [
    ("kl_div", f"{CROSS} b1 snone"),
    ("gaussian_nll_loss", "t6 t6 k6 b1 f1e-6 snone"),
    ("poisson_nll_loss", "t6 k6 b0 b1"),
    ("poisson_nll_loss", f"{CROSS} b0 b1 f1e-8 snone"),
    ("binary_cross_entropy_with_logits", "t144 t144 - snone t144"),
    ("soft_margin_loss", "t24 o24 snone"),
    ("soft_margin_loss", "t4,3 o4,3"),
    ("multilabel_soft_margin_loss", "t4,3 k4,3"),
    ("multilabel_soft_margin_loss", "t24,1 o24,1 - snone"),
    ("margin_ranking_loss", "t6 t6 o6 f0 snone"),
    ("cosine_similarity", "t4,3 k4,3"),
    ("cosine_similarity", "t4,3 t4,3"),
    ("cosine_embedding_loss", "t4,3 t4,3 o4"),
    ("prod", "t4,3 i1"), ("prod", "t12"), ("prod", "t3,5 i1 b1"),
    ("cumprod", "t2,6 i1"), ("cumprod", "t4,3 i0"),
    ("std", "t4,3 d1"), ("std", "t4,3 d1 f0 b1"), ("std_mean", "t4,3 d1"),
    ("std_mean 1", "t4,3 d1"), ("var_mean", "t4,3 d1"),
    ("var_mean 1", "t4,3 d1"), ("std_mean_unbiased", "t4,3 d1 b0"),
    ("std_mean_unbiased 1", "t4,3 d1 b0"), ("std_mean_all 1", "t4,3 b1"),
    ("std_unbiased", "t4,3 d1 b0"),
    ("amax", "t4,3 d1"), ("amin", "t4,3 d1"), ("max", "t6"), ("min", "t6"),
    ("aminmax", "t4,3 i1"), ("aminmax 1", "t4,3 i1"),
    ("norm", "t4,3 f1.5 d1"), ("norm", "t12 f1.5"), ("norm", "t4,3 f0.5 d1"),
    ("vector_norm", "t4,3 f2 d1"), ("vector_norm", "t4,3 f1 d1"),
    ("vector_norm", "t4,3 f0 d1"), ("vector_norm", "t4,3 finf d1"),
    ("vector_norm", "t4,3 f-inf d1"), ("vector_norm", "t4,3 f1.5 d1"),
    ("vector_norm", "t4,3 f0.5 d1"), ("vector_norm", "t4,3 f-1 d1"),
    ("normalize", "t4,3"), ("normalize", "t4,3 f1.5"), ("normalize", "t4,3 f1"),
    ("normalize", "t4,3 finf"),
    ("pairwise_distance", "t4,3 t4,3"), ("pairwise_distance", "t4,3 t4,3 f1.5"),
    ("dist", "t6 t6 f2"), ("dist", "t6 t6 f1.5"), ("dist", "t6 t6 finf"),
    ("dist", "t6 t6 f1"),
    ("cdist", "t4,3 t4,3"), ("cdist", "t4,3 t4,3 f1"),
    ("cdist", "t4,3 t4,3 f1.5"), ("cdist", "t4,3 t4,3 f0.5"),
    ("cdist", "t4,3 t4,3 finf"), ("cdist", "t26,2 t3,2"),
    ("pdist", "t4,3"), ("pdist", "t4,3 f1.5"), ("pdist", "t4,3 finf"),
    ("lp_pool1d", "t1,1,12 f2 d3"), ("lp_pool1d", "t1,1,12 f1.5 d3"),
    ("lp_pool1d", "t1,1,12 f3 d3"), ("lp_pool1d", "t1,1,12 finf d3"),
    ("lp_pool1d", "t1,1,12 f1 d3"), ("lp_pool2d", "t1,1,4,6 f2 d2"),
    ("lp_pool2d", "t1,1,4,6 finf d2"), ("lp_pool3d", "t1,1,2,4,4 f2 d2"),
    ("lp_pool3d", "t1,1,2,4,4 finf d2"),
    ("logsumexp", "t4,3 d1"), ("logcumsumexp", "t4,3 i1"),
    ("softmax", "t4,3 i1"), ("log_softmax", "t4,3 i1"),
    ("fill", "t2,3 t"), ("div", f"{CROSS} strunc"), ("div", f"{CROSS} sfloor"),
    ("pow", "t24 q2"), ("pow", "t24 q3"), ("pow", "t24 q0.5"),
    ("pow", "t24 q-1.5"), ("pow", "t24 q0"), ("pow", "t24 q1"),
    ("pow", "q2 t24"), ("pow", "q0 t24"), ("pow", "q-2 t24"),
    ("clamp", "t24 q-1 q2"), ("logit", "t24 f1e-6"), ("logit", "t24"),
    ("xlogy", CROSS), ("zeta", "n3 t24"), ("polygamma", "i1 t24"),
    ("polygamma", "i3 t24"), ("mvlgamma", "t24 i2"), ("gelu", "t24 stanh"),
    ("softplus", "t24 f2 f20"), ("elu", "t24 f0.5"), ("hardtanh", "t24"),
    ("linear_activation", "t2,3 t4,3"),
    ("linear_activation", "t2,3 t4,3 t4 sgelu"),
    ("linear_activation", "t2,3 t4,3 t4 sgelu_tanh"),
    ("layer_norm", "t4,3 d3"), ("layer_norm", "t4,3 d3 t3 t3"),
    ("batch_norm", "t4,3 - - t3 t3 b1"), ("rms_norm", "t4,3 d3 - f0.1"),
    ("group_norm", "t2,4,3 i2 t4 t4"), ("instance_norm", "t2,2,4"),
    ("nan_to_num", "t24"), ("quantile", "t4,3 q0.5 i1"),
    ("nanmedian_dim", "t4,3 i1"), ("binary_cross_entropy", "u2,3 k2,3"),
    ("lstm_cell", "t2,3 t2,2 t2,2 t8,3 t8,2 t8 t8"),
]

# ---- PyTorch's functions under other names or with other arguments --------------


def spaced(x, spacing, dim=None, edge=1):
    more = {} if dim is None else {"dim": dim}
    return torch.gradient(x, spacing=spacing, edge_order=edge, **more)


def interpolated(x, size, factor=0, mode="nearest", corners=False,
                 recompute=False, antialias=False):
    return F.interpolate(x, list(size) if size else None,
                         factor or None if not size else None, mode,
                         corners or None if not corners else True,
                         recompute or None, antialias)


def weights_of_attention(q, k, mask=None, causal=False, scale=0):
    scores = (q @ k.mT) * (scale or q.shape[-1]**-0.5)
    return (scores if mask is None else scores + mask).softmax(-1)


def bce_with_logits(x, t, weight=None, reduction="mean", pos_weight=None):
    """Needed because PyTorch has no derivative with respect to pos_weight."""
    p = 1 if pos_weight is None else pos_weight
    return (1 - t) * x - (1 + (p - 1) * t) * F.logsigmoid(x)


def plain_attention(*values):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        return F.scaled_dot_product_attention(
            *values[:3], **{n: v for n, v in zip(names, values[3:])
                            if v is not None and (n != "scale" or v)})


def layer(kind):
    def run(x, h, w_ih, w_hh, b_ih=None, b_hh=None, reverse=False):
        x = x.flip(0) if reverse else x
        weights = [w_ih, w_hh] + ([b_ih, b_hh] if b_ih is not None else [])
        y, last = getattr(torch, kind)(x, h[None], weights, b_ih is not None,
                                       1, 0.0, False, False, False)
        return y.flip(0) if reverse else y, last[0]
    return run


def lstm(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None, reverse=False):
    x = x.flip(0) if reverse else x
    weights = [w_ih, w_hh] + ([b_ih, b_hh] if b_ih is not None else [])
    if w_hr is not None:
        weights.append(w_hr)
    y, h, c = torch.lstm(x, (h[None], c[None]), weights, b_ih is not None, 1,
                         0.0, False, False, False)
    return y.flip(0) if reverse else y, h[0], c[0]


def after_linear(x, w, b=None, activation="relu"):
    y = F.linear(x, w, b)
    return y.relu() if activation == "relu" else F.gelu(
        y, approximate="tanh" if activation == "gelu_tanh" else "none")


def margin_loss(x, target, p=1, margin=1.0, weight=None, reduction="mean"):
    own = x.gather(1, target[:, None])
    each = (x - own + margin).clamp(min=0)
    each = torch.where(x - own + margin > 0, each, torch.zeros_like(each))**p
    if weight is not None:
        each = each * weight[target][:, None]
    others = torch.ones_like(x).scatter(1, target[:, None], 0)
    rows = (each * others).sum(1) / x.shape[1]
    return rows.mean() if reduction == "mean" else rows


def sliced(x, dim=0, start=0, end=None, step=1):
    where = [slice(None)] * x.dim()
    where[dim] = slice(start, end, step)
    return x[tuple(where)]


def indexed(x, indices, dims=None):
    where = [slice(None)] * x.dim()
    for k, index in enumerate(indices):
        where[dims[k] if dims else k] = index
    return x[tuple(where)]


def lp_pool(x, p, size, stride=0, ceil=False):
    """Needed because PyTorch's gradient at 0 is NaN, and it does not accept inf."""
    n = x.dim() - 2
    size = tuple(size) * n if len(size) == 1 else tuple(size)
    stride = None if not stride or 0 in stride else \
        tuple(stride) * n if len(stride) == 1 else tuple(stride)
    if p == INF:
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
        return pool(x.abs(), size, stride, ceil_mode=ceil)
    mean = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    whole = mean(x**p, size, stride, ceil_mode=ceil) * math.prod(size)
    if p == 1:
        return whole
    dead = whole == 0
    return torch.where(dead, 0, torch.where(dead, 1, whole)**(1 / p))


def bag(index, weight, offsets=None, max_norm=0, norm=2, by_freq=False,
        mode="mean", sparse=False, per_sample=None, last=False, padding=None):
    """Uses basic operators, since PyTorch's function has no second derivative."""
    if offsets is None:
        parts = list(index)
    else:
        starts = offsets.tolist()[:-1] if last else offsets.tolist()
        ends = starts[1:] + [len(index)]
        parts = [slice(a, b) for a, b in zip(starts, ends)]
    out, left = [], iter(index)
    for part in parts:
        part = torch.arange(len(index))[part] if offsets is not None else None
        which = index[part] if offsets is not None else next(left)
        keep = which >= 0 if padding is None else which != padding
        rows = weight[which[keep]]
        if per_sample is not None:
            rows = rows * per_sample[part][keep][:, None]
        out.append(torch.zeros_like(weight[0]) if not len(rows) else
                   rows.sum(0) if mode == "sum" else
                   rows.mean(0) if mode == "mean" else rows.max(0)[0])
    return torch.stack(out)


def pairs(x):
    return torch.view_as_real(x)


def rfft(x, n=None, dim=-1, norm=None):
    return pairs(torch.fft.rfft(x, n, dim, norm))


def irfft(x, n=None, dim=-1, norm=None):
    return torch.fft.irfft(torch.view_as_complex(x.contiguous()), n, dim, norm)


def stft(x, n_fft, hop=None, width=None, window=None, *rest):
    return pairs(torch.stft(x, n_fft, hop, width, window, *rest,
                            return_complex=True))


def dft_real(x, n, bins, back):
    if not back:
        return pairs(torch.fft.fft(x)[..., :bins]).mT
    x = torch.view_as_complex(x.mT.contiguous())
    return torch.fft.ifft(x, n, norm="forward").real


OTHERS.update({"fft_rfft": rfft, "fft_irfft": irfft, "stft": stft,
               "dft_real": dft_real})


COPIES = ("alias as_strided diagonal expand narrow permute squeeze t transpose "
          "unbind unsqueeze view split_with_sizes unfold").split()
OTHERS.update({f"{name}_copy": getattr(torch, f"{name}_copy")
               for name in COPIES})
OTHERS.update({
    "gradient_by": spaced, "gradient_at": spaced, "slice": sliced,
    "gradient": lambda x, spacing=None, dim=None, edge=1:
        torch.gradient(x, edge_order=edge,
                       **({} if spacing is None else {"spacing": spacing}),
                       **({} if dim is None else {"dim": dim})),
    "linalg_solve_triangular": lambda A, B, upper=False, left=True, unit=False:
        torch.linalg.solve_triangular(A, B, upper=upper, left=left,
                                      unitriangular=unit),
    "linalg_cond_by": lambda A, p: torch.linalg.matrix_norm(A, p) *
        torch.linalg.matrix_norm(torch.linalg.inv(A), p),
    "soft_margin_loss": lambda x, t, reduction="mean":
        -F.logsigmoid(t * x) if reduction == "none" else
        -F.logsigmoid(t * x).mean(),
    "linear_activation": after_linear,
    "lstm_cell": lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w),
    "rnn_tanh_layer": layer("rnn_tanh"), "rnn_relu_layer": layer("rnn_relu"),
    "gru_layer": layer("gru"), "lstm_layer": lstm,
    "round_decimals": lambda x, n: torch.round(x, decimals=n),
    "fill": lambda x, v: torch.fill(x, v), "index": indexed,
    "copy": lambda x, s: x.clone().copy_(s), "contiguous": torch.clone,
    "to": lambda x, device: x.clone(), "reverse_dims": lambda x: x.permute(
        list(reversed(range(x.dim())))),
    "to_dtype": lambda x, dtype: x.to(dtype),
    "narrow_at": lambda x, d, s, n: torch.narrow(x, d, int(s), n),
    "broadcast_tensors": lambda t: torch.broadcast_tensors(*t),
    "block_diag": lambda t: torch.block_diag(*t),
    "cartesian_prod": lambda t: torch.cartesian_prod(*t),
    "meshgrid": lambda t: torch.meshgrid(*t, indexing="ij"),
    "adaptive_avg_pool2d": lambda x, size: F.adaptive_avg_pool2d(
        x, [None if s < 0 else s for s in size]),
    "interpolate": interpolated, "attention_weights": weights_of_attention,
    "scaled_dot_product_attention": plain_attention,
    "floor_divide": lambda a, b: torch.floor_divide(a.detach(), b.detach()),
    "multi_margin_loss": margin_loss,
    "weight_norm": lambda v, g, dim=0:
        v * (g / torch.norm_except_dim(v, 2, dim)),
    "as_strided_scatter": lambda x, s, size, stride, offset=(0,):
        x.flatten().scatter(0, torch.arange(x.numel()).as_strided(
            size, stride, one(offset) or 0).flatten(),
            s.flatten()).reshape(x.shape),
    "embedding_bag": bag,
    "binary_cross_entropy_with_logits": lambda x, t, w=None, reduction="mean",
        p=None: F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction)
        if p is None else bce_with_logits(x, t, w, reduction, p),
    "hardsigmoid": lambda x: (x + 3).clamp(0, 6) / 6,
    "einsum": lambda equation, operands: torch.einsum(equation, *operands),
    "tensordot": lambda a, b, dims: torch.tensordot(
        a, b, dims[0] if len(dims) == 1 else ([dims[0]], [dims[1]])),
    "lp_pool1d": lp_pool, "lp_pool2d": lp_pool, "lp_pool3d": lp_pool,
})

# ---- functions that mpmath evaluates to any precision -----------------------------

def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


EXACT.update({
    "sigmoid": sigmoid, "silu": lambda x: x * sigmoid(x),
    "logsigmoid": lambda x: -mp.log1p(mp.exp(-x)) if x > -300 else
        x - mp.log1p(mp.exp(x)),
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "gelu": lambda x: x * mp.ncdf(x), "tanh": mp.tanh,
    "tanhshrink": lambda x: x - mp.tanh(x),
    "exp": mp.exp, "exp2": lambda x: mp.mpf(2)**x, "expm1": mp.expm1,
    "sinh": mp.sinh, "cosh": mp.cosh, "sin": mp.sin, "cos": mp.cos,
    "tan": mp.tan, "asinh": mp.asinh, "atan": mp.atan,
    "erf": mp.erf, "erfc": mp.erfc, "erfcx": lambda x: mp.exp(x * x) *
        mp.erfc(x),
    "ndtr": mp.ncdf, "log_ndtr": lambda x: mp.log(mp.ncdf(x)),
    "sinc": lambda x: mp.sinc(mp.pi * x),
    "i0": lambda x: mp.besseli(0, x), "i1": lambda x: mp.besseli(1, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "bessel_j0": lambda x: mp.besselj(0, x),
    "bessel_j1": lambda x: mp.besselj(1, x),
    "spherical_bessel_j0": lambda x: mp.sinc(x),
    "softsign": lambda x: x / (1 + abs(x)),
})

EXACT.update({
    "bessel_y0": lambda x: mp.bessely(0, x),
    "bessel_y1": lambda x: mp.bessely(1, x),
    "entr": lambda x: -x * mp.log(x), "log": mp.log, "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
})


def bessel_k(order, scaled):
    """Uses recurrences; numerical derivatives by mpmath would take minutes."""
    def run(x):
        k0, k1 = mp.besselk(0, x), mp.besselk(1, x)
        k2 = k0 + 2 * k1 / x
        f, d1, d2 = (k0, -k1, k1 / x + k0) if order == 0 else \
            (k1, -k0 - k1 / x, k1 + k2 / x)
        if scaled:
            f, d1, d2 = (mp.exp(x) * y for y in (f, f + d1, f + 2 * d1 + d2))
        return d1, d2
    return run


PAIRS.update({"modified_bessel_k0": bessel_k(0, False),
              "modified_bessel_k1": bessel_k(1, False),
              "scaled_modified_bessel_k0": bessel_k(0, True),
              "scaled_modified_bessel_k1": bessel_k(1, True)})
# Functions that have derivatives at positive numbers only.
POSITIVE |= {"modified_bessel_k0", "modified_bessel_k1", "log", "sqrt", "rsqrt",
             "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
             "bessel_y0", "bessel_y1", "entr"}
# The limits of the first and second derivative at infinity and at minus
# infinity.
LIMITS.update({
    "sigmoid": ((0, 0), (0, 0)), "tanh": ((0, 0), (0, 0)),
    "logsigmoid": ((0, 0), (1, 0)),
    "gelu": ((1, 0), (0, 0)), "bessel_j0": ((0, 0), (0, 0)),
    "bessel_j1": ((0, 0), (0, 0)),
})

# Norms, distances and standard deviations. At 0 PyTorch's first derivative is
# 0 (a subgradient) and its second derivative is NaN. Here the second
# derivative must be 0 too.
ZERO |= {"std", "std_unbiased", "std_all", "std_mean", "std_mean_unbiased",
         "std_mean_all", "norm", "vector_norm", "linalg_norm", "normalize",
         "cdist", "pdist", "dist", "pairwise_distance",
         "triplet_margin_loss", "linalg_matrix_norm",
         "lp_pool1d", "lp_pool2d", "lp_pool3d", "renorm",
         "prod", "cumprod", "hypot"}

# rms_norm's default eps depends on the dtype, so it is not the same in both dtypes.
EXCEPT.update({"rms_norm": ("t2,3 d3 t3",)})
# Singular vectors and eigenvectors have an arbitrary sign. PyTorch's matrix_norm
# defaults to the Frobenius norm.
EXCEPT.update({"linalg_svd": ("t2,4", "t2,2,4 b0"), "svd": ("t3,2",),
               "linalg_eigh": ("S2,3,3 sU",), "linalg_matrix_norm": ("t3,2",)})
