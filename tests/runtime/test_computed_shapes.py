"""NonZero, whose result has as many indices as elements are not zero, and random numbers: the runtime gives what the other engine gives."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

KINDS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]


def save(path, nodes, inputs, version=17):
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in inputs.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for node in nodes for name in node.output]
    graph = helper.make_graph(nodes, "g", values, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8), path)


def run(crumb, folder, nodes, inputs, used):
    save(folder / "net.onnx", nodes, inputs)
    given = []
    for name, x in inputs.items():
        np.save(folder / f"{name}.npy", x)
        given += ["--input", f"{name}={folder / name}.npy"]
    crumb("run", folder / "net.onnx", *given, "--output-dir", folder / used, "--engine", used)
    return {name: np.load(folder / used / f"{name}.npy") for node in nodes for name in node.output}


def test_indices_of_what_is_not_zero(crumb, tmp_path):
    """Also behind it: rows that are gathered by it, and a sum over so many."""
    random = np.random.default_rng(1)
    shapes = [(5,), (3, 4), (2, 3, 4), (1, 1), (4, 0), (2, 2, 1, 3)]
    kinds = [np.float32, np.int64, np.int32, np.uint8, bool]
    nodes, inputs = [], {}
    for i, shape in enumerate(shapes):
        for kind in kinds:
            name = f"x_{i}_{np.dtype(kind).name}"
            inputs[name] = random.integers(0, 3, size=shape).astype(kind)
            nodes.append(helper.make_node("NonZero", [name], [f"y_{name}"]))
    inputs["none"] = np.zeros((2, 3), np.float32)
    nodes.append(helper.make_node("NonZero", ["none"], ["y_none"]))
    last = "x_1_float32"
    nodes += [
        helper.make_node("Transpose", [f"y_{last}"], ["tuples"]), helper.make_node("GatherND", [last, "tuples"], ["taken"]),
        helper.make_node("ReduceSum", ["taken"], ["sum"], keepdims=0),
    ]  # fmt: skip
    made = run(crumb, tmp_path, nodes, inputs, "runtime")
    for name, x in inputs.items():
        assert np.array_equal(made[f"y_{name}"], np.array(np.nonzero(x))), name
        assert made[f"y_{name}"].dtype == np.int64
    assert made["sum"] == inputs[last].sum()


def random_nodes(seed):
    """Every operator in every type, with seeds."""
    random, nodes = np.random.default_rng(seed), []
    for kind in KINDS:
        numbers = {"normal": {"mean": 0.5, "scale": 2.0}, "uniform": {"low": -1.0, "high": 3.0}}
        for rule, attributes in numbers.items():
            more = attributes | {"dtype": kind, "seed": float(random.normal())}
            shape = [int(size) for size in random.integers(1, 9, size=2)]
            nodes.append(helper.make_node(f"Random{rule.title()}", [], [f"{rule}_{kind}"], shape=shape, **more))
            nodes.append(helper.make_node(f"Random{rule.title()}Like", ["x"], [f"{rule}_like_{kind}"], **more))
    return nodes


def numbers_of(node, shape):
    """What the node draws, in float64: NumPy's generator, and the formula of Box and Muller."""
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    generator, count = np.random.RandomState(np.float32(values["seed"]).view(np.uint32)), int(np.prod(shape))
    u = generator.random_sample(count)
    if "Uniform" in node.op_type:
        return (u * (values["high"] - values["low"]) + values["low"]).reshape(shape)
    drawn = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * generator.random_sample(count))
    return (drawn * values["scale"] + values["mean"]).reshape(shape)


@pytest.mark.parametrize("used", ["runtime", "libtorch"])
def test_a_seed_draws_the_numbers_of_numpy(crumb, engine, tmp_path, used):
    for seed in range(3):
        nodes, inputs = random_nodes(seed), {"x": np.zeros((3, 17), np.float32)}
        made = run(crumb, tmp_path, nodes, inputs, used)
        for node in nodes:
            array = made[node.output[0]]
            wanted = numbers_of(node, array.shape)
            digits = {2: 11, 4: 24, 8: 48}[array.itemsize]  # of float64 the logarithm and the cosine lose some
            assert np.allclose(array, wanted, rtol=0.5**digits, atol=0.5**digits), node.op_type


def test_numbers_without_a_seed(crumb, tmp_path):
    """Nodes draw different numbers, runs the same ones, and they have the distribution that they should."""
    inputs = {"x": np.zeros(20000, np.float32)}
    nodes = [helper.make_node("RandomNormalLike", ["x"], [name]) for name in ("a", "b")]
    nodes += [helper.make_node("RandomUniformLike", ["x"], ["u"], low=-1.0), helper.make_node("RandomNormalLike", ["x"], ["none"], scale=0.0)]
    made = run(crumb, tmp_path, nodes, inputs, "runtime")
    again = run(crumb, tmp_path, nodes, inputs, "runtime")
    assert all(np.array_equal(made[name], again[name]) for name in made)
    count = inputs["x"].size
    assert abs(np.corrcoef(made["a"], made["b"])[0, 1]) < 5 / count**0.5
    for name in ("a", "b"):
        x = made[name].astype(float)
        assert abs(x.mean()) < 5 / count**0.5 and abs(x.var() - 1) < 5 * (2 / count) ** 0.5
        assert abs((np.abs(x) < 1).mean() - 0.682689) < 5 * (0.25 / count) ** 0.5
        assert abs((x**3).mean()) < 5 * (15 / count) ** 0.5
    u = made["u"].astype(float)
    assert u.min() >= -1 and u.max() < 1 and abs(u.mean()) < 5 * (1 / 3 / count) ** 0.5 and abs(u.var() - 1 / 3) < 0.01
    assert not made["none"].any()
