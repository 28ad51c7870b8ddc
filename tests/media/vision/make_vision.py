#!/usr/bin/env python3
# Writes data/vision.gz, the results that test_vision.c compares with. Needs
# torch, torchvision 0.29 and pycocotools:
#     python3 make_vision.py
import contextlib, io, os
import numpy as np
import torch
import torchvision
from torchvision import ops
from torchvision.models.detection._utils import BoxCoder
from torchvision.models.detection.anchor_utils import AnchorGenerator
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from stored import put, save, noise, gradients

def boxes(n, seed, span=100, size=60):
    at = noise((n, 2), seed, 0, span, torch.float64)
    return torch.cat([at, at + noise((n, 2), seed + 1, 0.5, size, torch.float64)], 1).float()

# the IoU family
a, b = boxes(37, 1), boxes(23, 3)
for name, f in dict(iou=ops.box_iou, giou=ops.generalized_box_iou, diou=ops.distance_box_iou,
                    ciou=ops.complete_box_iou).items():
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    out = f(x, y)
    put(name, out)
    ga, gb = gradients(out, x, y)
    put(name + "_grad_a", ga)
    put(name + "_grad_b", gb)
    put(name + "_int", f(a.to(torch.int32), b.to(torch.int32)))
put("iou_batch", ops.box_iou(a[:10].reshape(2, 5, 4), b[:14].reshape(2, 7, 4)))
put("iou_cxcywh", ops.box_iou(ops.box_convert(a, "xyxy", "cxcywh"),
                              ops.box_convert(b, "xyxy", "cxcywh"), fmt="cxcywh"))
odd = torch.tensor([[0, 0, 0, 0], [5, 5, 1, 1], [float("nan"), 0, 1, 1], [0, 0, 10, 10.]])
put("iou_odd", ops.box_iou(odd, odd))
put("giou_odd", ops.generalized_box_iou(odd, odd))

# losses
for name, f in dict(giou=ops.generalized_box_iou_loss, diou=ops.distance_box_iou_loss,
                    ciou=ops.complete_box_iou_loss).items():
    x, y = a[:23].clone().requires_grad_(), b.clone().requires_grad_()
    out = f(x, y)
    put(name + "_loss", out)
    gx, gy = gradients(out, x, y)
    put(name + "_loss_grad_a", gx)
    put(name + "_loss_grad_b", gy)
    put(name + "_loss_mean", f(x, y, reduction="mean"))
    put(name + "_loss_sum", f(x, y, reduction="sum", eps=1e-7))
for i, (alpha, gamma) in enumerate([(0.25, 2), (-1, 1.5), (0.6, 0)]):
    x = noise((5, 7), 11, -6, 6).requires_grad_()
    t = (noise((5, 7), 12, 0, 1) > 0.5).float()
    out = ops.sigmoid_focal_loss(x, t, alpha, gamma)
    put(f"focal{i}", out)
    put(f"focal{i}_grad", gradients(out, x)[0])

# choosing
m = boxes(2000, 21, 200, 60)
scores = torch.floor(noise((2000,), 23, 0, 64)) / 64   # with equal scores
idxs = torch.floor(noise((2000,), 24, 0, 7)).long()
for t in (0.1, 0.5, 0.7):
    order = torch.sort(scores, descending=True, stable=True).indices
    put(f"nms{int(10 * t)}", ops.nms(m, scores, t).int())
put("nms_double", ops.nms(m.double(), scores.double(), 0.5).int())
keep = []
for k in range(7):
    w = torch.where(idxs == k)[0]
    keep.append(w[ops.nms(m[w], scores[w], 0.4)])
keep = torch.cat(keep).sort().values
put("batched_nms", keep[torch.sort(scores[keep], descending=True, stable=True).indices].int())
wild = torch.cat([odd, a, odd + 3])
put("nms_odd", ops.nms(wild, noise((len(wild),), 25, 0, 1), 0.3).int())
put("small", ops.remove_small_boxes(m, 30).int())
put("clip", ops.clip_boxes_to_image(a - 20, (70, 50)))
for i in ("xyxy", "xywh", "cxcywh"):
    for o in ("xyxy", "xywh", "cxcywh"):
        put(f"convert_{i}_{o}", ops.box_convert(a, i, o))
put("area", ops.box_area(a))
masks = (noise((5, 9, 11), 31, 0, 1) > 0.93)
masks[2] = False
put("masks", ops.masks_to_boxes(masks))

# regions
image = noise((2, 3, 13, 17), 41, -1, 1)
rois = torch.cat([torch.floor(noise((12, 1), 42, 0, 2)), boxes(12, 43, 40, 50)], 1)
rois = torch.cat([rois, torch.tensor([[0, -30, -20, -10, -5], [1, 60, 60, 100, 90], [0, 9, 9, 3, 3],
                                      [1, 0, 0, 0, 0], [0, 0, 0, 68, 52.]])])
for ratio in (2, -1, 0, 5):
    for aligned in (False, True):
        x = image.clone().requires_grad_()
        y = ops.roi_align(x, rois, (5, 4), 0.25, ratio, aligned)
        name = f"roi_align_{ratio}_{int(aligned)}"
        put(name, y[:, ::2])
        put(name + "_grad", gradients(y, x)[0][:, :2])
y = ops.roi_align(image, rois, (3, 3), 0.9)
put("roi_align_large", y[:, :1])
x = image.clone().requires_grad_()
y = ops.roi_pool(x, rois, (5, 4), 0.25)
put("roi_pool", y)
put("roi_pool_grad", gradients(y, x)[0])

# anchors and codes
g = AnchorGenerator(((32, 64), (100.5,)), ((0.5, 1.0, 2.0), (1.0, 3.0)))
cells = g.grid_anchors([[3, 4], [2, 2]], [[torch.tensor(16), torch.tensor(8)],
                                          [torch.tensor(32), torch.tensor(32)]])
put("anchors0", cells[0])
put("anchors1", cells[1])
coder = BoxCoder((10., 10., 5., 5.))
x, p = a[:23].clone().requires_grad_(), b.clone().requires_grad_()
code = coder.encode_single(x, p)
put("encode", code)
gx, gp = gradients(code, x, p)
put("encode_grad", gx)
put("encode_grad_p", gp)
codes = noise((23, 8), 51, -8, 30).requires_grad_()
out = coder.decode_single(codes, p)
put("decode", out)
gx, gp = gradients(out, codes, p)
put("decode_grad", gx)
put("decode_grad_p", gp)

# mean average precision
images, labels, found = [], [], []
id = 1
for i in range(15):
    images.append(dict(id=i + 1))
    n, k = i % 6, (i * 7) % 11
    truth = boxes(n, 100 + 4 * i, 300, 150).double()
    cls = torch.floor(noise((n,), 1000 + i, 0, 3))
    for j in range(n):
        x1, y1, x2, y2 = truth[j].tolist()
        area = (x2 - x1) * (y2 - y1) * (0.7 if i % 2 else 1)
        labels.append(dict(id=id, image_id=i + 1, category_id=int(cls[j]) + 1, bbox=[x1, y1, x2 - x1, y2 - y1],
                           area=area, iscrowd=int(i % 5 == 4 and j == 0)))
        id += 1
    det = truth[torch.arange(k) % n] + noise((k, 4), 2000 + i, -15, 15, torch.float64) if n else boxes(k, 3000 + i).double()
    score = noise((k,), 4000 + i, 0, 1, torch.float64)
    guess = torch.floor(noise((k,), 5000 + i, 0, 4))
    for j in range(k):
        c = int(cls[j % n]) + 1 if n and guess[j] < 3 else 1 + int(guess[j]) % 3
        x1, y1, x2, y2 = det[j].float().tolist()
        found.append(dict(image_id=i + 1, category_id=c, bbox=[x1, y1, x2 - x1, y2 - y1], score=float(score[j])))
with contextlib.redirect_stdout(io.StringIO()):
    truth = COCO()
    truth.dataset = dict(images=images, annotations=labels, categories=[dict(id=k + 1) for k in range(3)])
    truth.createIndex()
    e = COCOeval(truth, truth.loadRes(found), "bbox")
    e.evaluate(); e.accumulate(); e.summarize()
put("map", e.stats)
p = e.eval["precision"][:, :, :, 0, 2]
put("map_classes", [p[:, :, k].mean() if (p[:, :, k] > -1).any() else -1 for k in range(3)])
# VOC: the curve at IoU 0.5 from the matches of COCO, integrated in two ways
e.params.maxDets = [1, 10, 10000]
with contextlib.redirect_stdout(io.StringIO()):
    e.evaluate()
area, eleven = [], []
for k in range(3):
    ev = [v for v in e.evalImgs[k * 4 * 15:k * 4 * 15 + 15] if v is not None]
    s = np.concatenate([v["dtScores"] for v in ev])
    o = np.argsort(-s, kind="mergesort")
    hit = np.concatenate([v["dtMatches"][0] for v in ev])[o] > 0
    ign = np.concatenate([v["dtIgnore"][0] for v in ev])[o].astype(bool)
    total = sum((v["gtIgnore"] == 0).sum() for v in ev)
    tp, fp = np.cumsum(hit & ~ign), np.cumsum(~hit & ~ign)
    rec, pre = tp / total, tp / np.maximum(tp + fp, 1e-16)
    mrec, mpre = np.r_[0, rec, 1], np.r_[0, pre, 0]
    mpre = np.maximum.accumulate(mpre[::-1])[::-1]
    w = np.where(mrec[1:] != mrec[:-1])[0]
    area.append(((mrec[w + 1] - mrec[w]) * mpre[w + 1]).sum())
    eleven.append(np.mean([pre[rec >= t].max() if (rec >= t).any() else 0 for t in np.linspace(0, 1, 11)]))
put("map_voc", [np.mean(area), np.mean(eleven)])

save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "vision.gz"))
