"""Files that hls4ml takes, changed in one place: what lint says of each beside what hls4ml does.

    python tests/export/projects/mutations.py CRUMB FOLDER --count 100 --seed 1

A miss is a file that lint takes and hls4ml does not convert, or computes otherwise than qonnx does; a false refusal one that
lint refuses and hls4ml computes the same. One line for each file; the last line counts.
"""

import argparse
import json
import subprocess
from collections import Counter
from pathlib import Path

import client
import numpy as np
import onnx
from float_networks import drawn
from onnx import TensorProto, helper, numpy_helper

NAMES = ["", "input", "a.b", "1x", "for", "a/b", "x", "relu", "_", "input_1", "weight", "a b", "ü", "main"]


def constant(model, name):
    return next(one for one in model.graph.initializer if one.name == name)


def put(model, name, array):
    constant(model, name).CopyFrom(numpy_helper.from_array(np.asarray(array, np.float32), name))


def pick(rng, model, *ops):
    nodes = [node for node in model.graph.node if not ops or node.op_type in ops]
    return nodes[rng.integers(len(nodes))] if nodes else None


def rename_node(rng, model):
    pick(rng, model).name = str(rng.choice(NAMES))


def same_names(rng, model):
    pick(rng, model).name = pick(rng, model).name


def rename_value(rng, model):
    names = [value.name for value in [*model.graph.input, *model.graph.value_info, *model.graph.initializer]]
    old, new = str(rng.choice(names)), str(rng.choice(NAMES)) or "v"
    if new in names:
        return False
    for node in model.graph.node:
        node.input[:] = [new if one == old else one for one in node.input]
        node.output[:] = [new if one == old else one for one in node.output]
    for group in (model.graph.input, model.graph.value_info, model.graph.initializer, model.graph.output):
        for one in group:
            one.name = new if one.name == old else one.name
    del model.graph.quantization_annotation[:]


def drop_attribute(rng, model):
    node = pick(rng, model)
    if not node.attribute:
        return False
    del node.attribute[rng.integers(len(node.attribute))]


def change_attribute(rng, model):
    node = pick(rng, model)
    if not node.attribute:
        return False
    one = node.attribute[rng.integers(len(node.attribute))]
    if one.type == onnx.AttributeProto.INT:
        one.i = int(rng.choice([0, 1, 2, 1 - one.i]))
    elif one.type == onnx.AttributeProto.INTS:
        one.ints[rng.integers(len(one.ints))] = int(rng.integers(0, 3))
    elif one.type == onnx.AttributeProto.STRING:
        one.s = str(rng.choice(["FLOOR", "CEIL", "HALF_UP", "round", "HALF_EVEN", "NOTSET", "UP"])).encode()


def change_parameter(rng, model):
    """A scale, zero point or width of another number, or of another shape."""
    node = pick(rng, model, "Quant")
    place = int(rng.integers(1, 4))
    array = numpy_helper.to_array(constant(model, node.input[place]))
    number = array.reshape(-1)[0] if array.size else np.float32(0)
    changes = [array.reshape([1] * int(rng.integers(0, 5))) if array.size == 1 else array * 2, np.full((1,), number)]
    changes += {1: [array * 3, array * 0.5, -array, array * 0], 2: [array + 1, array - 0.5],
                3: [array + 1, array - 1, array + 0.5, array * 0 + 1, array * 0 + 16]}[place]  # fmt: skip
    put(model, node.input[place], changes[rng.integers(len(changes))])


def scale_of_channels(rng, model):
    node = pick(rng, model, "Quant")
    values = [one for one in model.graph.initializer if one.name == node.input[0]]
    shape = list(values[0].dims) if values else [dim.dim_value for dim in next(
        one for one in [*model.graph.value_info, *model.graph.input] if one.name == node.input[0]
    ).type.tensor_type.shape.dim]  # fmt: skip
    axis = int(rng.integers(len(shape)))
    wanted = [size if i == axis else 1 for i, size in enumerate(shape)]
    number = numpy_helper.to_array(constant(model, node.input[1])).reshape(-1)[0]
    name = node.input[1] + "_each"
    model.graph.initializer.append(
        numpy_helper.from_array((number * rng.choice([1, 2], wanted)).astype(np.float32), name))  # fmt: skip
    node.input[1] = name


def drop_value_info(rng, model):
    if not model.graph.value_info:
        return False
    del model.graph.value_info[rng.integers(len(model.graph.value_info))]


def other_shape(rng, model):
    value = model.graph.value_info[rng.integers(len(model.graph.value_info))]
    dims = value.type.tensor_type.shape.dim
    if not dims:
        return False
    one = dims[rng.integers(len(dims))]
    if rng.random() < 0.5:
        one.dim_param = "N"
    else:
        one.dim_value += 1


def spare_initializer(rng, model):
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "spare"))


def initializer_as_input(rng, model):
    one = model.graph.initializer[rng.integers(len(model.graph.initializer))]
    model.graph.input.append(helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)))


def constant_node(rng, model):
    one = model.graph.initializer[rng.integers(len(model.graph.initializer))]
    node = helper.make_node("Constant", [], [one.name], name="Constant_0", value=one)
    model.graph.initializer.remove(one)
    model.graph.node.insert(0, node)


def other_order(rng, model):
    nodes = list(model.graph.node)
    i = int(rng.integers(len(nodes) - 1))
    nodes[i], nodes[i + 1] = nodes[i + 1], nodes[i]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def swapped_inputs(rng, model):
    node = pick(rng, model, "Add", "Mul", "MatMul")
    if node is None:
        return False
    node.input[:] = [node.input[1], node.input[0], *node.input[2:]]


def inserted(rng, model):
    """An operator more behind a node."""
    node = pick(rng, model)
    kind = str(rng.choice(["Identity", "Relu", "Neg", "Transpose", "Reshape", "Mul", "Add", "Sigmoid", "Abs"]))
    shapes = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim]
              for one in [*model.graph.value_info, *model.graph.output]}  # fmt: skip
    out = node.output[0]
    if out not in shapes or any(one.name == out for one in model.graph.output):
        return False
    more = []
    if kind == "Reshape":
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(shapes[out], np.int64), "extra_shape"))
        more = ["extra_shape"]
    if kind in ("Mul", "Add"):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(2.0, np.float32), "extra_number"))
        more = ["extra_number"]
    options = {"perm": list(range(len(shapes[out])))} if kind == "Transpose" and rng.random() < 0.5 else {}
    for other in model.graph.node:
        other.input[:] = ["extra_out" if one == out else one for one in other.input]
    at = list(model.graph.node).index(node) + 1
    model.graph.node.insert(at, helper.make_node(kind, [out, *more], ["extra_out"], name="Extra_0", **options))
    shape = shapes[out][::-1] if kind == "Transpose" and not options else shapes[out]
    if shape != shapes[out]:
        return False
    model.graph.value_info.append(helper.make_tensor_value_info("extra_out", TensorProto.FLOAT, shape))


def other_imports(rng, model):
    if rng.random() < 0.5:
        del model.opset_import[rng.integers(len(model.opset_import))]
    else:
        model.opset_import[rng.integers(len(model.opset_import))].version += int(rng.integers(1, 5))


MUTATIONS = [
    rename_node, same_names, rename_value, drop_attribute, change_attribute, change_parameter, scale_of_channels,
    drop_value_info, other_shape, spare_initializer, initializer_as_input, constant_node, other_order, swapped_inputs,
    inserted, other_imports,
]  # fmt: skip


def good_file(crumb, folder, seed):
    net, output = drawn(seed)
    model, samples = net.save(output, folder / "net.onnx"), net.samples(folder / "x.npy")
    bits = 3 + seed % 5
    subprocess.run([crumb, "quantize", model, "-o", folder / "good.onnx", "--profile", "hls4ml", "--data", samples, "--weights",
                    f"int{bits}:tensor:scale=e8m0:search=mse", "--activations", f"uint{bits}:tensor:scale=e8m0:search=mse"],
                   check=True, capture_output=True)  # fmt: skip
    return onnx.load(folder / "good.onnx")


def verdict(crumb, model):
    """What lint says: taken, warned, approximate or refused; and by which rules."""
    done = subprocess.run([crumb, "lint", model, "--for", "hls4ml", "--json"], capture_output=True, text=True)
    if not done.stdout:
        return "refused", done.stderr.strip()[-200:]
    findings = json.loads(done.stdout)["findings"]
    kinds = {one["severity"] for one in findings}
    word = next((kind for kind in ("refused", "approximate", "warning") if kind in kinds), "taken")
    return word, ", ".join(sorted({one["rule"] for one in findings}))


def executed(model, samples):
    """In qonnx's executor; nothing where it cannot."""
    import onnxruntime
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    onnxruntime.set_default_logger_severity(4)
    constants = {one.name for one in model.graph.initializer}
    value = next(one for one in model.graph.input if one.name not in constants)
    shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    try:
        wrapper = ModelWrapper(model)
        made = [execute_onnx(wrapper, {value.name: one.reshape(shape)})[model.graph.output[0].name] for one in samples]
        return np.stack(made).reshape(len(samples), -1)
    except Exception:
        return None


def run_hls4ml(*arguments):
    """What run_hls4ml.py says."""
    command = [client.client_python("hls4ml"), Path(__file__).with_name("run_hls4ml.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=client.environment())
    return json.loads(done.stdout)


def measured(crumb, folder, seed):
    """One file: the mutation, lint's verdict and rules, and what hls4ml did."""
    rng = np.random.default_rng([seed, 3])
    folder.mkdir(parents=True, exist_ok=True)
    model = good_file(crumb, folder, int(rng.integers(8)))
    mutation = MUTATIONS[seed % len(MUTATIONS)]
    while mutation(rng, model) is False:
        mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
    path = folder / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    word, rules = verdict(crumb, path)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    samples = np.round(rng.normal(0, 1, (16, *shape[1:])) * 8).astype(np.float32) / 8
    expected = executed(model, samples)
    np.save(folder / "samples.npy", samples)
    np.save(folder / "expected.npy", np.full((16, 1), np.nan) if expected is None else expected)
    did = run_hls4ml(path, folder / "hls", folder / "samples.npy", folder / "expected.npy")
    return mutation.__name__, word, rules, did["outcome"], did["what"]


def judged(word, outcome):
    if word == "taken":
        return "right" if outcome == "equal" else "miss"
    return "false refusal" if outcome == "equal" and word == "refused" else "right"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("crumb", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts = Counter()
    for number in range(options.count):
        seed = options.seed * 1000 + number
        name, word, rules, outcome, what = measured(options.crumb, options.folder / str(seed), seed)
        kind = judged(word, outcome)
        counts[kind] += 1
        print(f"{kind:13}  {seed}  {name}: lint {word} ({rules}), hls4ml {outcome} {what}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
