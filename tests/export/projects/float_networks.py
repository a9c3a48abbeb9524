"""Float networks with random weights, as somebody brings them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A float network with random weights, channels on axis 1."""

    def __init__(self, seed, shape):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.tensors, self.shape = [], [], shape

    def tensor(self, *shape, spread=None):
        values = self.rng.normal(0, spread or 1 / np.sqrt(max(1, np.prod(shape[1:]))), shape).astype(np.float32)
        self.tensors.append(numpy_helper.from_array(values, f"t{len(self.tensors)}"))
        return self.tensors[-1].name

    def node(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name + ".out"], name=name, **attributes))
        return name + ".out"

    def conv(self, x, inputs, outputs, kernel=3, group=1, bias=True, stride=1, pads=True):
        operands = [x, self.tensor(outputs, inputs // group, kernel, kernel)]
        operands += [self.tensor(outputs, spread=0.2)] if bias else []
        pad = kernel // 2 if pads else 0
        return self.node("Conv", *operands, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2, group=group)

    def dense(self, x, inputs, outputs):
        return self.node("Gemm", x, self.tensor(outputs, inputs), self.tensor(outputs, spread=0.2), transB=1)

    def norm(self, x, channels):
        one = lambda low, high: self.rng.uniform(low, high, channels).astype(np.float32)  # noqa: E731
        parts = [one(0.5, 1.5), one(-0.2, 0.2), one(-0.2, 0.2), one(0.5, 1.5)]
        names = []
        for part in parts:
            self.tensors.append(numpy_helper.from_array(part, f"t{len(self.tensors)}"))
            names.append(self.tensors[-1].name)
        return self.node("BatchNormalization", x, *names)

    def save(self, output, path):
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *self.shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.tensors)  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

    def samples(self, path, count=64):
        np.save(path, self.rng.normal(0, 1, (count, *self.shape)).astype(np.float32))
        return path


def mlp(seed=1):
    net = Net(seed, (12,))
    x = net.node("Relu", net.dense("image", 12, 16))
    x = net.node("Relu", net.dense(x, 16, 8))
    return net, net.dense(x, 8, 4)


def residual_cnn(seed=2):
    net = Net(seed, (2, 6, 6))
    x = net.node("Relu", net.norm(net.conv("image", 2, 4, bias=False), 4))
    y = net.node("Relu", net.conv(x, 4, 4))
    y = net.conv(y, 4, 4)
    x = net.node("Relu", net.node("Add", x, y))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", x)
    return net, net.dense(x, 36, 3)


def separable_cnn(seed=3):
    net = Net(seed, (3, 6, 6))
    x = net.node("Relu", net.conv("image", 3, 6, stride=2))
    x = net.node("Relu", net.conv(x, 6, 6, group=6))
    x = net.node("Relu", net.conv(x, 6, 4, kernel=1))
    x = net.node("Flatten", x)
    return net, net.node("Softmax", net.dense(x, 36, 3))


def one_dense(seed=4):
    net = Net(seed, (9,))
    return net, net.node("MatMul", "image", net.tensor(9, 5))


def one_convolution(seed=5):
    net = Net(seed, (3, 5, 5))
    return net, net.conv("image", 3, 4, bias=False)


def pooled_line(seed=6):
    """A convolution and a pool over one axis."""
    net = Net(seed, (2, 14))
    x = net.node("Conv", "image", net.tensor(5, 2, 3), net.tensor(5, spread=0.2), kernel_shape=[3], pads=[1, 1], strides=[1])
    x = net.node("MaxPool", net.node("Relu", x), kernel_shape=[2], strides=[2])
    return net, net.dense(net.node("Flatten", x), 35, 3)


NETWORKS = {
    "pooled_line": pooled_line, "mlp": mlp, "residual_cnn": residual_cnn, "separable_cnn": separable_cnn, "one_dense": one_dense,
    "one_convolution": one_convolution,
}  # fmt: skip


def drawn(seed):
    """A chain of what both tools have: convolutions of every kind, norms, residual adds, pools, dense layers."""
    rng = np.random.default_rng([seed, 7])
    draw = lambda *choices: choices[rng.integers(len(choices))]  # noqa: E731
    channels, size = int(rng.integers(1, 4)), int(rng.integers(4, 9))
    if rng.random() < 0.3:
        net, width = Net(seed, (int(rng.integers(3, 20)),)), None
        x, width = "image", net.shape[0]
    else:
        net, x = Net(seed, (channels, size, size)), "image"
        for _ in range(rng.integers(1, 4)):
            kind = draw("conv", "conv", "depthwise", "pointwise", "residual", "pool")
            if kind == "pool" and size >= 4 and x != "image":
                x, size = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4), size // 2
                continue
            if kind == "residual" and x != "image":
                y = net.node("Relu", net.conv(x, channels, channels, bias=bool(rng.random() < 0.5)))
                x = net.node("Relu", net.node("Add", x, net.conv(y, channels, channels)))
                continue
            outputs, stride = channels if kind == "depthwise" else int(rng.integers(1, 6)), 1
            group = channels if kind == "depthwise" else 1
            kernel = 1 if kind == "pointwise" else draw(2, 3) if group == 1 else 3
            if kernel == 3 and size % 2 == 0 and rng.random() < 0.3:
                stride = 2
            if kernel == 2:
                size -= 1
            y = net.conv(x, channels, outputs, kernel, group, bool(rng.random() < 0.7), stride, pads=kernel == 3)
            size, channels = -(-size // stride), outputs
            if rng.random() < 0.4:
                y = net.norm(y, channels)
            x = net.node("Relu", y)
        if rng.random() < 0.15:
            return net, x
        x, width = net.node("Flatten", x), channels * size * size
    for _ in range(rng.integers(0, 3)):
        outputs = int(rng.integers(2, 9))
        x, width = net.node("Relu", net.dense(x, width, outputs)), outputs
    return net, net.dense(x, width, int(rng.integers(1, 6)))


def network_of_pytorch(folder):
    """net.onnx and x.npy, as torch.onnx.export writes a residual block: names with dots and slashes, a batch norm."""
    torch = pytest.importorskip("torch")
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
            self.b = nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x):
            return torch.relu(x + self.b(torch.relu(self.norm(self.a(x)))))

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), Block(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 5))
    x = torch.randn(32, 1, 8, 8)
    np.save(folder / "x.npy", x.numpy())
    torch.onnx.export(net.eval(), (x[:1],), folder / "net.onnx", input_names=["image.0"], output_names=["scores"],
                      dynamic_axes={"image.0": {0: "N"}, "scores": {0: "N"}}, dynamo=False, opset_version=13)  # fmt: skip
