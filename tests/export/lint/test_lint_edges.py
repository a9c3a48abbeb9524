"""crumb lint: where each rule begins. lint_models.py breaks every rule in one way; here stand the other ways, and beside
each the nearest model that the rule takes."""

import json

import numpy as np
import onnx
import pytest
from lint_models import (
    QONNX, Net, again, annotated, average, behind, bipolar, called, changed, channelwise, conv, conv_without, dense,
    dense_with, double_constant, drop_input, float_bias, forked_weight, in_domain, one_bit_net, other_operator, qdq, quantized_bias,
    renamed, residual, set_attribute, thresholds, typed, wide_concat,
)  # fmt: skip
from onnx import TensorProto, helper

TAKEN = None


def pool(version=1, drop=(), **attributes):
    """FINN's average pool with other attributes."""
    net = average(version)
    for name, value in attributes.items():
        set_attribute(net.find("AveragePool_0"), name, value)
    for name in drop:
        set_attribute(net.find("AveragePool_0"), name, None)
    return net


def with_const(net, name, array, dtype=np.float32):
    net.const(name, array, dtype)
    return net


def pool_without_mul():
    net = average()
    net.nodes.remove(net.find("Mul_0"))
    net.find("Trunc_0").input[0] = "AveragePool_0_out"
    return net


def mul_without_pool():
    net = average()
    net.nodes.remove(net.find("AveragePool_0"))
    net.find("Mul_0").input[0] = "Quant_in_out"
    return net


def sized_pool(size, factor):
    net = pool(kernel_shape=[size, size], strides=[1, 1])
    for name in ("AveragePool_0_out", "Mul_0_out", "Trunc_0_out"):
        net.shapes[name] = [1, 2, 5 - size, 5 - size]
    return with_const(net, "size", factor)


def more_inputs(node, extra, net=None):
    net = net or dense()
    for name in extra:
        net.find(node).input.append(net.const(name, 1.0))
    return net


def fewer_inputs(net, node):
    return changed(net, drop_input(node))


def quantizer(profile="finn", target="Quant_out", **parameters):
    return dense_with(profile, target, **parameters)


def bit(scale=0.5, zeropt=0.0, **attributes):
    net = one_bit_net()
    net.const("bit_0", scale)
    net.const("bit_1", zeropt)
    for name, value in attributes.items():
        set_attribute(net.find("Bit_0"), name, value)
    return net


def doubled():
    net = dense()
    add = net.find("Add_0")
    add.input[1] = add.input[0]
    return net


def of_32_bits(least):
    """A constant's quantizer of scale 1, whose greatest code is no float32: what it makes counts, not what it could."""
    net = annotated("Quant_w_out", "finn_datatype", "INT32")
    for key, value in {"scale": 1.0, "bits": 32.0, "values": np.full((4, 3), least)}.items():
        net.const(f"Quant_w_{key}", value)
    return net


def bipolar_annotated(**parameters):
    """An activation of scale 1 that is said to be -1 or 1."""
    net = dense_with(target="Quant_in", scale=1.0, signed=1, **parameters)
    net.annotations.append(("Quant_in_out", "finn_datatype", "BIPOLAR"))
    return net


def opset(number):
    return dense(opset=number)


def weight_as_output():
    net = dense()
    net.outputs = ["Quant_out_out", "Quant_w_out"]
    return net


def shared_data():
    """Two quantizers of one initializer."""
    net = forked_weight()
    net.find("MatMul_1").input[1] = net.quant("Quant_w_values", "Quant_v", scale=0.25, bits=3, narrow=1)
    net.nodes.insert(1, net.nodes.pop())
    return net


def conv_scale(scale):
    net = conv()
    net.const("Quant_in_scale", scale)
    return net


def relu_before(**attributes):
    return quantizer(**attributes)


def concat_of_four():
    net = wide_concat()
    net.shapes["x"] = net.shapes["Quant_in_out"] = [1, 2, 2, 2]
    net.shapes["Concat_0_out"] = [1, 4, 2, 2]
    return net


def conv_with(profile="hls4ml", **attributes):
    net = conv(profile, channels=attributes.pop("channels", 2), group=attributes.pop("group", 1))
    for name, value in attributes.items():
        set_attribute(net.find("Conv_0"), name, value)
    return net


def pad(mode="constant", value=0.0, opset=13):
    net = conv("hls4ml")
    net.opset, net.imports[0] = opset, ("", opset)
    extra = [net.const("pads", [0] * 8, np.int64)]
    if value is not None:
        extra.append(net.const("value", value))
    return behind(net, "Pad", extra=extra, mode=mode)


def resize(roi, mode="half_pixel", rows=6):
    net = conv("hls4ml")
    for name, shape in net.shapes.items():
        if len(shape) == 4 and name not in net.constants and "w" not in name:
            net.shapes[name] = [1, rows, *shape[2:]]
    first = "" if roi is None else net.const("roi", np.zeros(roi))
    extra = [first, net.const("scales", [1.0, 1.0, 1.0, 1.0])]
    return behind(net, "Resize", extra=extra, mode="nearest", coordinate_transformation_mode=mode)


def transpose(perm):
    net = Net()
    x = net.quant(net.input("x", [3, 3]), "Quant_in")
    net.node("Transpose", [x], "Extra_0", **({"perm": perm} if perm else {}))
    return net


def threshold(rank, layout=""):
    net = thresholds()
    shape = [1, 3, 3, 3][:rank]
    for name in ("x", "Quant_in_out", "Threshold_0_out"):
        net.shapes[name] = shape
    if layout:
        set_attribute(net.find("Threshold_0"), "data_layout", layout)
    return net


def ordered(index, net=None):
    def change(model):
        entries = [(entry.domain, entry.version) for entry in model.opset_import]
        entries.insert(0, entries.pop(index))
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*entry) for entry in entries)

    return changed(net or dense(), change)


def stated(name, shape, kind=TensorProto.FLOAT):
    def change(model):
        infos = model.graph.value_info
        kept = [info for info in infos if info.name != name]
        del infos[:]
        infos.extend([*kept, helper.make_tensor_value_info(name, kind, shape)])

    return changed(dense(), change)


def integer_clip(version):
    net = Net(opset=version)
    net.imports = [("", version)]
    x = net.input("x", [1, 3], TensorProto.INT8)
    bounds = [net.const("low", -7, np.int8), net.const("high", 7, np.int8)]
    net.node("Clip", [x, *bounds], "Clip_0", kind=TensorProto.INT8)
    return net


def qdq_of(kind, version):
    net = qdq(opset=version)
    array = helper.make_tensor("zero", kind, [], [0])
    net.change = lambda model: [
        model.graph.initializer.remove(next(t for t in model.graph.initializer if t.name == "zero")),
        model.graph.initializer.append(array),
        [setattr(v.type.tensor_type, "elem_type", kind) for v in model.graph.value_info if v.name == "Quantize_0_out"],
    ]
    return net


def domain_alone(domain, node="Relu_0"):
    """A node's domain, without an import of it."""

    def change(model):
        next(n for n in model.graph.node if n.name == node).domain = domain

    return changed(dense(), change)


def first_domain(domain):
    def change(model):
        model.opset_import[0].domain = domain

    return changed(dense(), change)


def with_initializer(kind, net=None, is_output=True):
    """One more initializer of two elements that are 0, an output or taken by nobody."""

    def change(model):
        model.graph.initializer.append(helper.make_tensor("more", kind, [2], [0, 0]))
        if is_output:
            model.graph.output.append(helper.make_tensor_value_info("more", kind, [2]))

    return changed(net or dense(), change)


def without_info(name):
    def change(model):
        infos = model.graph.value_info
        infos.remove(next(info for info in infos if info.name == name))

    return changed(dense(), change)


def constant(**value):
    """A Constant node whose value goes into an operator that nobody knows."""

    def change(model):
        model.graph.node.append(helper.make_node("Constant", [], ["made"], name="Constant_1", **value))
        model.graph.node.append(helper.make_node("Hash", ["made"], ["hash"], name="Hash_0", domain="made.up"))
        model.opset_import.append(helper.make_opsetid("made.up", 1))
        model.graph.output.append(helper.make_tensor_value_info("hash", TensorProto.FLOAT, [1]))

    return changed(dense(), change)


def swapped(at):
    def change(model):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
        nodes[at], nodes[at + 1] = nodes[at + 1], nodes[at]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    return changed(dense(), change)


# rule, profile, model, what the message says (TAKEN: the rule says nothing), and whether it can be fixed (None: any)
EDGES = [
    ("trunc", "finn", lambda: pool(kernel_shape=[2, 1], strides=[2, 2]), "kernel is not square", False),
    ("trunc", "finn", lambda: pool(strides=[2, 1]), "strides are not two equal numbers", False),
    ("trunc", "finn", lambda: pool(drop=["strides"]), "strides are not two equal numbers", False),
    ("trunc", "finn", lambda: pool(drop=["pads"]), "pads are not written", False),
    ("trunc", "finn", lambda: pool(pads=[0, 0, 0, 1]), "the pool pads", False),
    ("trunc", "finn", lambda: with_const(average(), "zeropt", [0.0]), "zeropt is not 0 of shape []", False),
    ("trunc", "finn", lambda: with_const(average(), "zeropt", 1.0), "zeropt is not 0 of shape []", False),
    ("trunc", "finn", lambda: with_const(average(), "size", 3.0), "is not by 4 of shape []", False),
    ("trunc", "finn", lambda: with_const(average(), "size", [4.0]), "is not by 4 of shape []", False),
    ("trunc", "finn", lambda: sized_pool(3, 9.0), TAKEN, None),
    ("trunc", "finn", lambda: sized_pool(3, 6.0), "is not by 9", False),
    ("trunc", "finn", pool_without_mul, "no Mul by the size of the kernel", False),
    ("trunc", "finn", mul_without_pool, "no AveragePool stands before it", False),
    ("trunc", "finn", lambda: with_const(average(2), "out_scale", 4.0), "log2(out_scale / scale)", False),
    ("trunc", "finn", lambda: with_const(average(2), "out_scale", 1.0), "log2(out_scale / scale)", False),
    ("trunc", "finn", lambda: with_const(average(2), "in_bits", 5.0), "log2(out_scale / scale)", False),
    ("trunc", "finn", lambda: pool(2, pads=[1, 0, 0, 0]), "the pool pads", False),
    ("trunc", "finn", lambda: average(), TAKEN, None),
    ("trunc", "finn", lambda: average(2), TAKEN, None),
    ("average-pool", "finn", pool_without_mul, TAKEN, None),
    ("average-pool", "hls4ml", average, "has no channels-last form", False),
    ("operator", "finn", lambda: doubled(), "adds a value to itself", False),
    ("conv-group", "finn", lambda: conv(channels=4, group=4), TAKEN, None),
    # Quantizers.
    ("quantizer-inputs", "qonnx", lambda: more_inputs("Quant_out", ["more"]), "it has 5 inputs, expected 4", False),
    ("quantizer-inputs", "qonnx", lambda: fewer_inputs(dense(), "Quant_out"), "it has 3 inputs, expected 4", False),
    ("quantizer-inputs", "qonnx", lambda: fewer_inputs(bipolar(1.0), "Bipolar_0"), "it has 1 inputs, expected 2", False),
    ("quantizer-inputs", "qonnx", lambda: bipolar(1.0), TAKEN, None),
    ("rounding-mode", "finn", lambda: dense_with(rounding_mode="FLOOR"), TAKEN, None),
    ("rounding-mode", "hls4ml", lambda: quantizer(rounding_mode="FLOOR"), TAKEN, None),
    ("rounding-mode", "hls4ml", lambda: quantizer(rounding_mode="UP"), "expected ROUND or FLOOR", False),
    ("rounding-mode", "qonnx", lambda: quantizer(rounding_mode="HALF_EVEN"), TAKEN, None),
    ("rounding-mode", "finn", lambda: quantizer(rounding_mode="HALF_EVEN"), "which is the same", True),
    ("rounding-mode", "qonnx", lambda: quantizer(rounding_mode="round"), TAKEN, None),
    ("rounding-mode-case", "qonnx", lambda: quantizer(rounding_mode="Half_Even"), "expected HALF_EVEN", True),
    ("rounding-mode-case", "qonnx", lambda: quantizer(rounding_mode="SIDEWAYS"), TAKEN, None),
    ("bitwidth-whole", "finn", lambda: quantizer(bits=1), TAKEN, None),
    ("bitwidth-whole", "finn", lambda: quantizer(bits=0.5), "bitwidth is 0.5", False),
    ("bitwidth-whole", "finn", lambda: quantizer(bits=0), "bitwidth is 0", False),
    ("bitwidth-whole", "qonnx", lambda: quantizer(bits=2.5), TAKEN, None),
    ("unsigned-narrow", "hls4ml", lambda: quantizer(narrow=0), TAKEN, None),
    ("unsigned-narrow", "hls4ml", lambda: dense_with(target="Quant_in", narrow=1), TAKEN, None),
    ("scale-value", "qonnx", lambda: quantizer(scale=-0.5), TAKEN, None),
    ("scale-value", "qonnx", lambda: quantizer(scale=np.inf), "scale holds inf", False),
    ("scale-value", "finn", lambda: quantizer(scale=0.0), "scale holds 0", False),
    ("scale-value", "finn", lambda: quantizer(scale=1e-30), TAKEN, None),
    ("parameter-type", "qonnx", lambda: typed(np.int64, 1 << 24), "zeropt is int64, expected float", True),
    ("parameter-type", "qonnx", lambda: typed(np.int64, (1 << 24) + 1), "zeropt is int64", False),
    ("parameter-type", "qonnx", lambda: typed(np.int64, -(1 << 24) - 1), "zeropt is int64", False),
    ("parameter-type", "qonnx", lambda: typed(np.float64, 0.5), "zeropt is double", True),
    ("parameter-shape", "qonnx", lambda: quantizer(scale=[[1, 2, 3]]), TAKEN, None),
    ("parameter-shape", "qonnx", lambda: quantizer(scale=[[[1, 2, 3]]]), "does not broadcast", False),
    ("parameter-shape", "qonnx", lambda: quantizer(scale=[[1], [2]]), "does not broadcast", False),
    ("parameter-axes", "qonnx", lambda: quantizer(scale=[0.5]), TAKEN, None),
    ("parameter-axes", "qonnx", lambda: quantizer(scale=[[0.5, 1, 2]]), TAKEN, None),
    ("parameter-axes", "qonnx", lambda: quantizer(zeropt=[0, 1, 2]), "zeropt has shape [3], expected 2 axes", True),
    ("zeropt-scalar", "qonnx", lambda: quantizer(zeropt=[0.0]), TAKEN, None),
    ("zeropt-scalar", "qonnx", lambda: quantizer(zeropt=[[0, 1, 0]]), TAKEN, None),
    ("zeropt-scalar", "qonnx", lambda: quantizer(zeropt=[[1, 1, 1]]), "of one number, 1, expected shape []", True),
    ("bitwidth-scalar", "qonnx", lambda: quantizer(bits=4), TAKEN, None),
    ("bitwidth-scalar", "qonnx", lambda: quantizer(bits=[4, 4]), "bitwidth has shape [2]", True),
    ("bitwidth-scalar", "qonnx", lambda: with_const(average(), "in_bits", [6.0]), "in_bitwidth has shape [1]", True),
    ("bitwidth-scalar", "qonnx", lambda: with_const(average(), "out_bits", [4.0]), "out_bitwidth has shape [1]", True),
    ("bitwidth-scalar", "qonnx", lambda: with_const(average(2), "out_bits", [4.0]), "out_bitwidth has shape [1]", True),
    ("bitwidth-scalar", "qonnx", lambda: with_const(average(2), "out_scale", [2.0]), TAKEN, None),
    ("one-bit", "finn", lambda: bit(scale=1.0), "expected BipolarQuant", True),
    ("one-bit", "finn", lambda: bit(scale=1.5), "expected BipolarQuant", False),
    ("one-bit", "finn", lambda: bit(scale=0.0), "expected BipolarQuant", False),
    ("one-bit", "finn", lambda: bit(scale=-0.5), "expected BipolarQuant", False),
    ("one-bit", "finn", lambda: bit(zeropt=1.0), "expected BipolarQuant", False),
    ("one-bit", "finn", lambda: bit(signed=0), TAKEN, None),
    ("one-bit", "qonnx", bit, TAKEN, None),
    # Activations.
    ("activation-bits", "finn", lambda: quantizer(bits=8), TAKEN, None),
    ("activation-bits", "finn", lambda: dense_with(bits=9), TAKEN, None),
    ("activation-sign", "finn", lambda: quantizer(narrow=1), "it is narrow behind", True),
    ("activation-sign", "finn", lambda: quantizer(signed=1, bits=2), "it is signed behind", True),
    ("activation-sign", "finn", lambda: quantizer(signed=1, bits=1), "it is signed behind", False),
    ("activation-sign", "finn", lambda: quantizer(signed=1, bits=2.5), "it is signed behind", False),
    ("activation-sign", "finn", lambda: quantizer(signed=1, zeropt=1.0), "it is signed behind", True),
    ("activation-sign", "finn", lambda: dense_with(target="Quant_in", narrow=1), TAKEN, None),
    ("activation-scale", "finn", lambda: dense_with(target="Quant_in", scale=[[0.5, 0.25, 1, 2]]), TAKEN, None),
    ("activation-scale", "finn", lambda: dense_with(target="Quant_in", scale=[[0.5]]), TAKEN, None),
    ("round-tie", "finn", lambda: again(2.0), "of 1 it makes code 0, FINN's thresholds make 1", True),
    ("round-tie", "finn", lambda: again(0.5), TAKEN, None),
    ("round-tie", "finn", lambda: again(0.25), TAKEN, None),
    ("round-tie", "finn", lambda: again(1.0, "HALF_UP"), TAKEN, None),
    ("round-tie", "hls4ml", again, TAKEN, None),
    ("rounding-mode", "finn", lambda: dense_with(target="Quant_out", rounding_mode="HALF_UP"), TAKEN, None),
    ("rounding-mode", "finn", lambda: dense_with(target="Quant_in", rounding_mode="HALF_UP"), "HALF_UP without a sign", True),
    ("power-of-two", "hls4ml", lambda: dense_with(target="Quant_in", scale=0.25), TAKEN, None),
    ("power-of-two", "hls4ml", lambda: dense_with(target="Quant_in", scale=4.0), TAKEN, None),
    ("power-of-two", "hls4ml", lambda: dense_with(target="Quant_in", scale=3.0), "scale is 3, expected a power", False),
    ("residual-scale", "finn", lambda: residual(0.5), TAKEN, None),
    ("zeropt-zero", "finn", lambda: dense_with(target="Quant_in", zeropt=[[0, 1, 0, 0]]), "not one number", False),
    ("bipolar-scale", "hls4ml", lambda: bipolar(1.0), TAKEN, None),
    # Weights.
    ("weight-fork", "finn", weight_as_output, "is an output of the graph", False),
    ("weight-fork", "finn", forked_weight, "is used 2 times, expected once", True),
    ("weight-fork", "finn", shared_data, "which another node quantizes too", True),
    ("weight-fork", "finn", dense, TAKEN, None),
    ("weight-scale", "finn", lambda: conv(scale=np.reshape([1, 2, 3, 4], (4, 1, 1, 1))), TAKEN, None),
    ("weight-scale", "finn", lambda: conv(scale=np.full((1, 1, 3, 1), 0.5)), "one for each output channel", True),
    ("weight-scale", "finn", lambda: dense_with(scale=[[1.0], [2.0], [3.0], [4.0]]), "one for each column", False),
    ("weight-scale", "hls4ml", lambda: dense_with(scale=[[0.5, 0.5, 0.5]]), TAKEN, None),
    ("weight-rounding", "qonnx", lambda: dense_with(rounding_mode="HALF_EVEN"), TAKEN, None),
    ("weight-rounding", "qonnx", lambda: quantizer(rounding_mode="FLOOR"), TAKEN, None),
    ("weight-rounding", "qonnx", lambda: dense_with(rounding_mode="CEIL"), "rounds a weight with 'CEIL'", True),
    ("weight-rounding", "qonnx", lambda: dense_with(rounding_mode="CEIL", narrow=0), "rounds a weight with 'CEIL'", True),
    # hls4ml's parser.
    ("conv-attributes", "hls4ml", lambda: conv_without("group"), "attribute group is not written", True),
    ("conv-attributes", "hls4ml", lambda: conv_without("pads"), "attribute pads is not written", True),
    ("conv-attributes", "hls4ml", lambda: conv_with(auto_pad="NOTSET"), TAKEN, None),
    ("conv-attributes", "hls4ml", lambda: conv_with(auto_pad="SAME_LOWER", pads=None), "auto_pad is 'SAME_LOWER'", True),
    ("conv-group", "hls4ml", lambda: conv_with(channels=4, group=4), TAKEN, None),
    ("concat-rank", "hls4ml", concat_of_four, TAKEN, None),
    ("pad-value", "hls4ml", pad, TAKEN, None),
    ("pad-value", "hls4ml", lambda: pad(value=None), TAKEN, None),
    ("pad-value", "hls4ml", lambda: pad(value=-1.0), "it does not pad with 0", False),
    ("pad-value", "hls4ml", lambda: pad(value=-1.0, opset=11), "it does not pad with 0", False),
    ("pad-value", "hls4ml", lambda: pad(mode="reflect", value=None), "its mode is 'reflect'", False),
    ("resize", "hls4ml", lambda: resize(1), TAKEN, None),
    ("resize", "hls4ml", lambda: resize(None), "its roi is not one number", True),
    ("resize", "hls4ml", lambda: resize(0), "its roi is not one number", True),
    ("resize", "hls4ml", lambda: resize(8), "its roi is not one number", True),
    ("resize", "hls4ml", lambda: resize(None, "tf_crop_and_resize"), "its roi is not one number", False),
    ("resize", "hls4ml", lambda: resize(1, rows=5), "hls4ml swaps them", False),
    ("conv-attributes", "hls4ml", lambda: conv_without("dilations"), "attribute dilations is not written", True),
    ("conv-bias", "hls4ml", lambda: conv("hls4ml", bias=quantized_bias), TAKEN, None),
    ("conv-bias", "hls4ml", lambda: conv("hls4ml", bias=float_bias), TAKEN, None),
    ("batch-constant", "hls4ml", lambda: dense("hls4ml"), TAKEN, None),
    ("cpp-name", "hls4ml", lambda: called("image"), TAKEN, None),
    ("cpp-name", "hls4ml", lambda: called("layer2_out"), TAKEN, None),
    ("cpp-name", "hls4ml", lambda: called("a.b"), "no C++ identifier", True),
    ("cpp-name", "hls4ml", lambda: called("a-b"), "no C++ identifier", True),
    ("cpp-name", "hls4ml", lambda: called("1st"), "no C++ identifier", True),
    ("cpp-name", "hls4ml", lambda: called("register"), "taken in hls4ml's C++", True),
    ("cpp-name", "hls4ml", lambda: called("Relu_0"), "that of an input", True),
    ("transpose-perm", "hls4ml", lambda: transpose([1, 0]), TAKEN, None),
    ("threshold-layout", "finn", lambda: threshold(3, "NCW"), TAKEN, None),
    ("threshold-layout", "finn", lambda: threshold(4), TAKEN, None),
    ("threshold-layout", "finn", lambda: threshold(2), TAKEN, None),
    # Files and graphs.
    ("onnx-opset", "finn", lambda: opset(21), TAKEN, None),
    ("onnx-opset", "finn", lambda: opset(22), "expected at most 21", False),
    ("ir-version", "finn", lambda: dense(ir=10), TAKEN, None),
    ("ir-version", "finn", lambda: dense(ir=11), "found 11, expected 8 and at most 10", True),
    ("ir-version", "qonnx", lambda: dense(ir=13), TAKEN, None),
    ("ir-version", "qonnx", lambda: dense(ir=14), "found 14, expected 8 and at most 13", True),
    ("opset-order", "qonnx", lambda: ordered(0), TAKEN, None),
    ("opset-order", "qonnx", lambda: ordered(1), f"'{QONNX}' 1, expected ONNX's own", True),
    ("legacy-domain", "qonnx", lambda: changed(dense(), in_domain("Quant_out", "finn.custom_op.general")), "", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "zZ0_/-"), TAKEN, None),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "A"), TAKEN, None),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "Z9"), TAKEN, None),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "a"), TAKEN, None),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "@a"), "does not begin with a letter", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "[a"), "does not begin with a letter", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "`a"), "does not begin with a letter", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "{a"), "does not begin with a letter", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "_a"), "does not begin with a letter", True),
    ("node-name", "qonnx", lambda: renamed("Relu_0", "a."), "holds a '.'", True),
    ("value-info", "qonnx", lambda: stated("Relu_0_out", [1, 3]), TAKEN, None),
    ("value-info", "qonnx", lambda: stated("Relu_0_out", None), "does not state its type and shape", True),
    ("float32", "qonnx", lambda: changed(dense(), double_constant), "found double, expected float", False),
    ("float32", "qonnx", lambda: behind(dense(), "Cast", to=TensorProto.FLOAT), TAKEN, None),
    ("operator", "finn", lambda: other_operator("QuantizeThings", "finn.custom_op.fpgadataflow"), TAKEN, None),
    ("operator", "finn", lambda: other_operator("Strange", "made.up"), "FINN has no operator 'Strange'", False),
    ("operator", "finn", lambda: conv("hls4ml"), "channels on axis 1", False),
    ("operator", "qonnx", lambda: conv("hls4ml"), TAKEN, None),
    ("operator", "hls4ml", lambda: conv("hls4ml"), TAKEN, None),
    ("operator", "finn", lambda: qdq(), "FINN has no QuantizeLinear", False),
    ("operator", "hls4ml", lambda: average(), "hls4ml's parser has no operator 'Trunc'", False),
    ("domain-import", "qonnx", lambda: domain_alone("ai.onnx"), TAKEN, None),
    ("domain-import", "qonnx", lambda: domain_alone("made.up"), "its domain 'made.up' is not imported", True),
    ("domain-import", "qonnx", dense, TAKEN, None),
    ("opset-order", "qonnx", lambda: first_domain("ai.onnx"), TAKEN, None),
    ("opset-order", "qonnx", dense, TAKEN, None),
    ("legacy-domain", "qonnx", lambda: domain_alone("ai.onnx", "Quant_out"), "expected 'qonnx.custom_op.general'", True),
    ("legacy-domain", "qonnx", lambda: domain_alone("ai.onnx"), TAKEN, None),
    ("legacy-domain", "qonnx", lambda: domain_alone("made.up", "Quant_out"), TAKEN, None),
    ("ir-version", "finn", lambda: with_initializer(TensorProto.UINT4, dense(ir=11)), "found 11", False),
    ("ir-version", "finn", lambda: with_initializer(TensorProto.INT4, dense(ir=11)), "found 11", False),
    ("ir-version", "finn", lambda: with_initializer(TensorProto.FLOAT8E5M2FNUZ, dense(ir=11)), "found 11", True),
    ("ir-version", "finn", lambda: with_initializer(TensorProto.INT16, dense(ir=11)), "found 11", True),
    ("ir-version", "qonnx", lambda: with_initializer(TensorProto.INT4, dense(ir=14)), "found 14", True),
    ("unused-initializer", "hls4ml", lambda: with_initializer(TensorProto.FLOAT), TAKEN, None),
    ("unused-initializer", "hls4ml", lambda: with_initializer(TensorProto.FLOAT, is_output=False), "no node takes this", True),
    ("unused-initializer", "qonnx", lambda: with_initializer(TensorProto.FLOAT, is_output=False), TAKEN, None),
    ("value-info", "qonnx", lambda: stated("Relu_0_out", [1, 4]), "the file states float [1, 4], expected float [1, 3]", True),
    ("value-info", "qonnx", lambda: without_info("Relu_0_out"), "does not state its type and shape: float [1, 3]", True),
    ("value-info", "qonnx", lambda: without_info("bias"), TAKEN, None),
    ("value-info", "hls4ml", lambda: without_info("bias"), "does not state its type and shape: float [3]", True),
    ("constant-node", "qonnx", lambda: constant(value_float=1.0), "a Constant node makes 'made'", True),
    ("constant-node", "qonnx", lambda: constant(value_string="a"), "a Constant node makes 'made'", False),
    ("node-order", "qonnx", lambda: swapped(1), "it stands before the node that makes its input 'Quant_w_out'", True),
    ("node-order", "qonnx", lambda: swapped(0), TAKEN, None),
    ("node-order", "qonnx", dense, TAKEN, None),
    ("parameter-axes", "qonnx", lambda: conv_scale([[[0.5]], [[0.25]]]), "scale has shape [2, 1, 1], expected 4 axes", True),
    ("parameter-axes", "qonnx", lambda: conv_scale([[[0.5]]]), TAKEN, None),
    ("unsigned-narrow", "hls4ml", lambda: quantizer(narrow=None), TAKEN, None),
    ("unsigned-narrow", "hls4ml", lambda: quantizer(narrow=1, signed=None), TAKEN, None),
    ("unsigned-narrow", "hls4ml", lambda: quantizer(narrow=1), "it is unsigned and narrow", False),
    ("unsigned-narrow", "hls4ml", lambda: quantizer(narrow=2), "it is unsigned and narrow", False),
    # Annotations.
    ("annotation-type", "qonnx", lambda: annotated("Quant_out_out", "finn_datatype", "FLOAT32"), TAKEN, None),
    ("annotation-type", "qonnx", lambda: annotated("bias", "finn_datatype", "INT8"), "it holds 0.5", True),
    ("annotation-type", "qonnx", lambda: annotated("bias", "finn_datatype", "FIXED<8,4>"), TAKEN, None),
    ("annotation-type", "qonnx", lambda: of_32_bits(0.5), TAKEN, None),
    ("annotation-type", "qonnx", lambda: of_32_bits(2.0**33), "its quantizer makes 2147483648", True),
    ("annotation-type", "qonnx", lambda: bipolar_annotated(bits=2, narrow=1), "its quantizer makes 0;", True),
    ("annotation-type", "qonnx", lambda: bipolar_annotated(bits=1, narrow=0), TAKEN, None),
    ("annotation-text", "qonnx", lambda: annotated("x", "tensor_layout", "['N', \"C_1\", {a: -1.5}]"), TAKEN, None),
    ("annotation-text", "qonnx", lambda: annotated("x", "tensor_sparsity", "{'a': [1, +2]}"), TAKEN, None),
    ("annotation-text", "qonnx", lambda: annotated("x", "tensor_sparsity", "a@b"), "tensor_sparsity is 'a@b'", True),
    ("annotation-text", "qonnx", lambda: annotated("x", "tensor_layout", "a;b"), "which qonnx evaluates", True),
    # QuantizeLinear and its like.
    ("qdq-tie", "onnxruntime", lambda: qdq(zero=4), TAKEN, None),
    ("qdq-tie", "onnxruntime", lambda: qdq(zero=-3), "its zero point -3 is odd", False),
    ("qdq-opset", "onnxruntime", lambda: qdq(opset=13, scale=[0.5, 0.25, 1]), TAKEN, None),
    ("qdq-opset", "onnxruntime", lambda: qdq(opset=11), TAKEN, None),
    ("qdq-opset", "onnxruntime", lambda: integer_clip(12), TAKEN, None),
    ("qdq-opset", "onnxruntime", lambda: qdq_of(TensorProto.INT16, 21), TAKEN, None),
    ("qdq-opset", "onnxruntime", lambda: qdq_of(TensorProto.INT16, 20), "needs operator set 21", False),
    ("qdq-opset", "onnxruntime", lambda: qdq_of(TensorProto.FLOAT8E4M3FN, 19), TAKEN, None),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(EDGES)), ids=[f"{e[0]}-{e[1]}-{i}" for i, e in enumerate(EDGES)])
def test_where_the_rule_begins(crumb, tmp_path, row):
    rule, profile, make, says, fixable = EDGES[row]
    onnx.save(make().model(), tmp_path / "model.onnx")
    done = crumb("lint", tmp_path / "model.onnx", "--for", profile, "--json", status=None)
    assert done.returncode in (0, 1), done.stderr
    findings = [finding for finding in json.loads(done.stdout)["findings"] if finding["rule"] == rule]
    if says is TAKEN:
        assert findings == []
        return
    mine = [finding for finding in findings if says in finding["message"]]
    assert mine, findings
    assert fixable is None or mine[0]["fixable"] == fixable


@pytest.mark.parametrize("profile", ["qonnx", "finn", "hls4ml"])
def test_a_quantized_bias_that_leaves_its_convolution_is_written_in_its_new_shape(crumb, tmp_path, profile):
    bias = np.array([0.5, -1.0, 0.25, 2.0])
    net = conv(profile, bias=lambda net: net.quant(net.const("bias", bias), "Quant_b", scale=0.25, bits=6),
               **channelwise(profile))  # fmt: skip
    onnx.save(net.model(), tmp_path / "model.onnx")
    crumb("lint", tmp_path / "model.onnx", "--for", profile, "--fix", tmp_path / "fixed.onnx", status=None)
    fixed = onnx.load(tmp_path / "fixed.onnx").graph
    assert not [node for node in fixed.node if node.op_type == "Reshape"]
    held = {tensor.name: tensor for tensor in fixed.initializer}
    quantizers = {node.output[0]: node for node in fixed.node if node.op_type == "Quant"}
    added = [quantizers[name] for node in fixed.node if node.op_type == "Add" for name in node.input if name in quantizers]
    [data] = [held[node.input[0]] for node in added if node.input[0] in held]
    assert onnx.numpy_helper.to_array(data).ravel().tolist() == bias.tolist()
