"""Prints what the package tensorboard reads in a folder with event files.

    read_back.py FOLDER
"""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

events = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "scalars": 0,
                                                      "histograms": 0, "images": 0})
events.Reload()
tags = events.Tags()
for tag in sorted(tags["scalars"]):
    for e in events.Scalars(tag):
        print("scalar", tag, e.step, "%g" % e.value)
for tag in sorted(tags["histograms"]):
    for e in events.Histograms(tag):
        h = e.histogram_value
        print("histogram", tag, e.step, "%g %g %g %g %g" %
              (h.min, h.max, h.num, h.sum, h.sum_squares),
              sum(h.bucket) == h.num, len(h.bucket) == len(h.bucket_limit),
              list(h.bucket_limit) == sorted(h.bucket_limit))
for tag in sorted(tags["images"]):
    for e in events.Images(tag):
        print("image", tag, e.step, e.width, e.height)
for tag in sorted(tags["tensors"]):
    for e in events.Tensors(tag):
        print("text", tag, e.step, e.tensor_proto.string_val[0].decode())
for tag, content in sorted(events.PluginTagToContent("hparams").items()):
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    if data.HasField("experiment"):
        print("hparams", [(h.name, h.type) for h in data.experiment.hparam_infos],
              [m.name.tag for m in data.experiment.metric_infos])
    if data.HasField("session_start_info"):
        for name, value in sorted(data.session_start_info.hparams.items()):
            print("hparam", name, value.string_value or value.number_value)
    if data.HasField("session_end_info"):
        print("status", data.session_end_info.status)
