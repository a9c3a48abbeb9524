"""What docs/crumb_file.md says of graphs, checked by a reader that knows nothing else of Crumb."""

import re

import crumb_reader
import onnx
from onnx import TensorProto as T

TYPES = {"BOOL": T.BOOL, "U8": T.UINT8, "U16": T.UINT16, "U32": T.UINT32, "U64": T.UINT64, "I8": T.INT8, "I16": T.INT16,
         "I32": T.INT32, "I64": T.INT64, "C64": T.COMPLEX64, "F16": T.FLOAT16, "BF16": T.BFLOAT16, "F32": T.FLOAT,
         "F64": T.DOUBLE, "F8_E5M2": T.FLOAT8E5M2, "F8_E5M2FNUZ": T.FLOAT8E5M2FNUZ, "F8_E4M3": T.FLOAT8E4M3FN,
         "F8_E4M3FNUZ": T.FLOAT8E4M3FNUZ, "F4": T.FLOAT4E2M1, "F8_E8M0": T.FLOAT8E8M0}  # fmt: skip
AXES = "crumb.axes:"


def read(path):
    """The structure, the names of the network's own inputs, and the tensors as the other inputs take them."""
    header, files, tensors = crumb_reader.read_header(path), crumb_reader.read_files(path), crumb_reader.read(path, widen=False)
    whole = header["model"] == "graph"  # and no checkpoint as well
    _check("graph.onnx" in files and (whole or crumb_reader.read_version(path) == 2), "no graph")
    try:
        model = onnx.load_from_string(files["graph.onnx"])
    except Exception as error:
        raise ValueError(f"no ModelProto: {error}") from error
    _check(model.HasField("graph") and not model.training_info, "no graph, or graphs for training")
    graph = model.graph
    _check_constants(graph)
    own, constants = _inputs(model, {entry["name"]: entry for entry in header["tensors"]}, whole)
    _check_values(graph)
    _check_axes(graph, {entry["name"]: entry for entry in header["tensors"]})
    return model, own, {name: tensors[name] for name in constants}


def _check(condition, message):
    if not condition:
        raise ValueError(message)


def _check_constants(graph):
    _check(not graph.sparse_initializer, "a sparse initializer")
    held = [attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t")]
    for constant in [*graph.initializer, *held]:
        _check(constant.data_location != T.EXTERNAL and not constant.external_data, "external data")
        _check(not constant.HasField("segment"), "a segment")
    for names in ([x.name for x in graph.initializer], [x.name for x in graph.input]):
        _check(all(names) and len(set(names)) == len(names), "a name is empty or there twice")
    for node in graph.node:
        names = [attribute.name for attribute in node.attribute]
        _check(len(set(names)) == len(names), "an attribute is there twice")


def _inputs(model, entries, whole):
    keys = [entry.key for entry in model.metadata_props]
    _check(len(set(keys)) == len(keys), "an entry of the metadata is there twice")
    _check("crumb.inputs" in keys, "the metadata have no crumb.inputs")
    text = model.metadata_props[keys.index("crumb.inputs")].value
    initializers = {x.name for x in model.graph.initializer}
    inputs = [x for x in model.graph.input if x.name not in initializers]
    _check(re.fullmatch("[0-9]+", text) and int(text) <= len(inputs), f"crumb.inputs is {text!r}")
    own, constants = inputs[: int(text)], inputs[int(text) :]
    _check(not {x.name for x in own} & entries.keys(), "a tensor is an input of the network's own")
    _check({x.name for x in constants} <= entries.keys(), "an input is no tensor")
    _check(not whole or len(constants) == len(entries), "a tensor is no input")
    others = entries.keys() - {x.name for x in constants}
    made = initializers | {output for node in model.graph.node for output in node.output}
    _check(not others & made, "a value is called like a tensor that is no input")
    for value in constants:
        entry, kind = entries[value.name], value.type.tensor_type
        wanted = T.FLOAT if "encoding" in entry else TYPES.get(entry["dtype"])
        _check(kind.elem_type == wanted, f"{value.name} is of another type")
        _check(kind.HasField("shape"), f"{value.name} is of any shape")
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
        _check(dims == entry["shape"], f"{value.name} is of another shape")
    return [x.name for x in own], [x.name for x in constants]


def _check_values(graph):
    made = [x.name for x in graph.initializer]
    made += [x.name for x in graph.input if x.name not in set(made)]
    made += [output for node in graph.node for output in node.output if output]
    _check(len(set(made)) == len(made), "a value is made twice")
    known, waiting = set(made) - {output for node in graph.node for output in node.output}, list(graph.node)
    while waiting:
        ready = [node for node in waiting if {value for value in node.input if value} <= known]
        _check(ready, "a cycle, or a value that nothing makes")
        known |= {output for node in ready for output in node.output}
        waiting = [node for node in waiting if not any(node is other for other in ready)]
    _check({x.name for x in graph.output} <= known, "an output that nothing makes")


def _check_axes(graph, entries):
    for node in graph.node:
        if node.op_type != "Transpose" or len(node.input) != 1 or node.name != AXES + node.input[0]:
            continue
        if "encoding" not in entries.get(node.input[0], {}):
            continue
        perm = [list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"]
        axes = list(range(len(entries[node.input[0]]["shape"])))
        _check(perm and sorted(perm[0]) == axes, "perm is no permutation")
