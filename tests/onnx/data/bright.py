# Writes bright.onnx: a detector of bright squares of 16 x 16 pixels, with the
# outputs of torchvision's detectors. Its score of a square is its mean brightness.
#
#     python bright.py bright.onnx       (needs onnx and numpy)
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

SIDE, SQUARE, STEP = 64, 16, 4
corner = np.arange(0, SIDE - SQUARE + 1, STEP)
top, left = [c.ravel() for c in np.meshgrid(corner, corner, indexing="ij")]
boxes = np.stack([left, top, left + SQUARE, top + SQUARE], 1).astype(np.float32)

values = {
    "all_boxes": boxes[None],
    "flat": np.array([1, 1, -1], np.int64),
    "most": np.array([10], np.int64),
    "overlap": np.array([0.1], np.float32),
    "least": np.array([0.5], np.float32),
    "column_label": np.array(1, np.int64),
    "column_box": np.array(2, np.int64),
    "rows": np.array([-1], np.int64),
    "first": np.array([0], np.int64),
}
node = helper.make_node
nodes = [
    node("ReduceMean", ["image"], ["grey"], axes=[1], keepdims=1),
    node("AveragePool", ["grey"], ["means"], kernel_shape=[SQUARE, SQUARE],
         strides=[STEP, STEP]),
    node("Reshape", ["means", "flat"], ["all_scores"]),
    node("NonMaxSuppression",
         ["all_boxes", "all_scores", "most", "overlap", "least"], ["chosen"]),
    node("Gather", ["chosen", "column_label"], ["labels"], axis=1),
    node("Gather", ["chosen", "column_box"], ["index"], axis=1),
    node("Squeeze", ["all_boxes", "first"], ["table"]),
    node("Gather", ["table", "index"], ["boxes"]),
    node("Reshape", ["all_scores", "rows"], ["list"]),
    node("Gather", ["list", "index"], ["scores"]),
]
value = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes, "bright", [value("image", T.FLOAT, [1, 3, SIDE, SIDE])],
    [value("boxes", T.FLOAT, ["n", 4]), value("labels", T.INT64, ["n"]),
     value("scores", T.FLOAT, ["n"])],
    [numpy_helper.from_array(v, k) for k, v in values.items()])
model = helper.make_model(graph, ir_version=8,
                          opset_imports=[helper.make_opsetid("", 17)])
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
