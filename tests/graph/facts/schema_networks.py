"""Networks of quantizer -> any operator -> dense layer, drawn from the operator's schema alone.

Types, shapes, constants and attributes are drawn until onnx.checker, which infers strictly, takes the model. Bodies of
control flow are written here.
"""

import faulthandler
import os
import pickle
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.defs import OpSchema

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
SCALES = [0.5, 0.25, 1.0]
LOW, HIGH = -8, 7  # of a value's quantizer
WEIGHT_SCALE = 0.5
TRIES = 1000
DENSE = 5  # the first operator set of ONNX whose Reshape takes a shape as input

TYPES = {
    "tensor(float)": TensorProto.FLOAT, "tensor(double)": TensorProto.DOUBLE, "tensor(float16)": TensorProto.FLOAT16,
    "tensor(int64)": TensorProto.INT64, "tensor(int32)": TensorProto.INT32, "tensor(int16)": TensorProto.INT16,
    "tensor(int8)": TensorProto.INT8, "tensor(uint8)": TensorProto.UINT8, "tensor(uint32)": TensorProto.UINT32,
    "tensor(uint64)": TensorProto.UINT64, "tensor(bool)": TensorProto.BOOL, "tensor(string)": TensorProto.STRING,
}  # fmt: skip
FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
WORDS = {"equation": ["ij,jk->ik", "ij->ji", "...i->...", "i,i"], "to": ["FLOAT", "INT32"]}


class Network:
    """One operator behind quantizers: what is drawn, before it has names."""

    def __init__(self, domain, op, version):
        self.domain, self.op, self.version = domain, op, version
        self.inputs = []  # (kind, type, shape or array); kinds: "value", "constant", "seq", "optional", "none"
        self.attributes, self.outputs, self.output, self.casts = {}, 1, 0, None
        self.scale = 1.0

    def __repr__(self):
        inputs = [kind if kind == "none" else (kind, kind_of, np.shape(what) if kind == "constant" else what)
                  for kind, kind_of, what in self.inputs]  # fmt: skip
        return f"{self.domain or 'ai.onnx'}.{self.op}-{self.version}{inputs} {self.attributes} output {self.output}"


class Builder:
    """Networks of one operator set in one file."""

    def __init__(self, imports):
        self.imports = dict(imports)
        self.opset = self.imports[""]
        self.nodes, self.constants, self.graph_inputs, self.outputs = [], [], [], []
        self.networks = {}

    def constant(self, value, dtype=np.float32):
        name = f"c{len(self.constants)}"
        if isinstance(value, np.ndarray):
            self.constants.append(numpy_helper.from_array(value, name))
        else:
            self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op, inputs, domain="", outputs=1, **attributes):
        made = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=f"n{len(self.nodes)}", domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def cast(self, value, to):
        return self.node("Cast", [value], to=to if self.opset >= 6 else TensorProto.DataType.Name(to))

    def quantized(self, shape, scale, elem=TensorProto.FLOAT):
        x = f"x{len(self.graph_inputs)}"
        self.graph_inputs.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, shape))
        made = self.node("Quant", [x, *(self.constant(v) for v in (scale, 0, 4))], GENERAL, signed=1, narrow=0,
                         rounding_mode="ROUND")  # fmt: skip
        return made if elem == TensorProto.FLOAT else self.cast(made, elem)

    def add(self, network, feeds=None):
        """`feeds`: the values of quantized inputs, which are then plain inputs of the graph: nothing quantizes."""
        values = []
        for kind, type_of, what in network.inputs:
            if kind == "none":
                values.append("")
            elif kind == "constant":
                values.append(self.constant(what))
            else:
                whole = type_of not in FLOATS
                one = self.value(what, 1.0 if whole else network.scale, TYPES[type_of], feeds)
                one = self.node("SequenceConstruct", [one, one]) if kind == "seq" else one
                values.append(self.node("Optional", [one]) if kind == "optional" else one)
        attributes = dict(network.attributes)
        for key, value in attributes.items():
            if callable(value):
                attributes[key] = value(self, values)
        made = self.node(network.op, values if network.op != "If" else values[:1], network.domain, network.outputs,
                         **attributes)  # fmt: skip
        made = [made] if network.outputs == 1 else made
        return made[network.output]

    def value(self, shape, scale, elem, feeds):
        if feeds is None:
            return self.quantized(shape, scale, elem)
        name = f"x{len(self.graph_inputs)}"
        self.graph_inputs.append(helper.make_tensor_value_info(name, elem, shape))
        feeds.append((name, shape, scale, elem))
        return name

    def finish(self, network, value):
        """The dense layer behind a tensor of elements of one type."""
        if network.casts == "optional":
            value = self.node("OptionalGetElement", [value])
        elif network.casts == "seq":
            value = self.node("SequenceAt", [value, self.constant(0, np.int64)])
        elif network.casts:
            value = self.cast(value, TensorProto.FLOAT)
        if self.opset >= DENSE:
            value = self.node("Reshape", [value, self.constant([-1, 1], np.int64)])
        else:
            value = self.node("Reshape", [value], shape=[-1, 1])
        w = self.constant(np.array([[WEIGHT_SCALE, -WEIGHT_SCALE]], np.float32))
        w = self.node("Quant", [w, *(self.constant(v) for v in (WEIGHT_SCALE, 0, 4))], GENERAL, signed=1, narrow=1,
                      rounding_mode="ROUND")  # fmt: skip
        name = f"layer{len(self.outputs)}"
        self.nodes.append(helper.make_node("MatMul", [value, w], [f"y{len(self.outputs)}"], name=name))
        self.outputs.append(helper.make_tensor_value_info(f"y{len(self.outputs)}", TensorProto.FLOAT, [None, 2]))
        self.networks[name] = network

    def model(self, outputs=None):
        graph = helper.make_graph(self.nodes, "g", self.graph_inputs, outputs or self.outputs, self.constants)
        imports = [helper.make_opsetid(d, v) for d, v in self.imports.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def imports_of(domain, version, opset):
    imports = {"": opset, GENERAL: 1, LAST: 1}
    imports[domain] = version
    return imports


# What is drawn.


def drawn_shapes(rng):
    spatial = [int(n) for n in rng.integers(3, 6, rng.integers(1, 3))]
    return [[2, 3], [3, 3], [1, 2, *spatial], [4, 2, *spatial], [2, 2, *spatial], [2, 3, 4], [1], [4], [2, 4, 4, 4]][
        rng.integers(9)
    ]


def like(rng, base):
    """Shapes that go with another."""
    if rng.random() < 0.3:
        return list(base)
    options = [list(base)] * 6 + [[1], [], [base[-1]], [base[0]], [base[min(1, len(base) - 1)]], [2 * len(base)],
                                  [len(base)], [1, *base], [*base, 1], base[::-1], base[:2], [base[0], 1, *base[1:]],
                                  [2, 4], [2], [base[min(1, len(base) - 1)], 1, 2], [base[0], *base[2:], max(len(base) - 2, 1)], drawn_shapes(rng)]  # fmt: skip
    return options[rng.integers(len(options))]


def constant_of(rng, type_of, base):
    kind = helper.tensor_dtype_to_np_dtype(TYPES[type_of])
    if type_of in ("tensor(int64)", "tensor(int32)"):
        rank = len(base)
        vectors = [[0], [1], [2], [-1], base, [*base, 2], np.ones(2 * rank), np.zeros(2 * rank), np.ones(rank),
                   np.arange(rank), [2, 1], np.full(rank, 2), 1, 2, 0, 4, np.zeros(base), np.arange(np.prod(base))]  # fmt: skip
        value = np.asarray(vectors[rng.integers(len(vectors))], kind)
        return value.reshape(base) if value.size == np.prod(base) and rng.random() < 0.3 else value
    shape = like(rng, base)
    if kind == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(0 if kind in (np.uint8, np.uint32, np.uint64) else -2, 3, shape)).astype(kind)


def words_of(name, attribute):
    quoted = re.findall(r"[`'\"]([\w.+-]+)[`'\"]|\b([A-Z_]{4,})\b|\(([a-z]+)\)", attribute.description)
    found = [word for group in quoted for word in group if word]
    return WORDS.get(name, []) + found + ["a"]


def drawn_attribute(rng, name, attribute, base):
    kind, rank = attribute.type, len(base)
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    if kind == OpSchema.AttrType.INT:
        if "type" in name or name == "to":
            return int(pick(TensorProto.FLOAT, TensorProto.INT64))
        if attribute.required and rng.random() < 0.5:
            return 1
        is_flag = attribute.default_value.type and attribute.default_value.i in (0, 1)
        return int(pick(0, 1) if is_flag else pick(0, 1, 2))
    if kind == OpSchema.AttrType.INTS:
        return [int(n) for n in pick([1], [1], [2], [0], [0], [1, 1], [2, 2], [0, 1], [1] * rank, [2] * max(rank - 2, 1),
                                     [0] * 2 * max(rank - 2, 1), list(range(rank)), base, [1] * 2 * rank)]  # fmt: skip
    if kind == OpSchema.AttrType.FLOAT:
        return float(pick(0.5, 1.0, 2.0))
    if kind == OpSchema.AttrType.FLOATS:
        return [float(n) for n in pick([1.0], [0.5, 0.5], [1.0] * rank, [2.0] * base[-1])]
    if kind == OpSchema.AttrType.STRING:
        words = words_of(name, attribute)
        return words[rng.integers(len(words))]
    if kind == OpSchema.AttrType.STRINGS:
        return pick(["a"], ["a", "b"], ["a"] * base[-1])
    if kind == OpSchema.AttrType.TENSOR:
        return numpy_helper.from_array(np.asarray(pick(1.0, [2.0], [1.0]), pick(np.float32, np.float32, np.uint8)))
    return None


def resolve(rng, schema):
    """A type for each variable of the inputs: float32 mostly."""
    chosen, of_inputs = {}, {formal.type_str for formal in schema.inputs}
    for constraint in schema.type_constraints:
        if constraint.type_param_str not in of_inputs:
            continue
        allowed = [t for t in constraint.allowed_type_strs if t in TYPES]
        sequences = [t for t in constraint.allowed_type_strs
                     if re.fullmatch(r"(seq|optional)\(tensor\((float|int64)\)\)", t)]  # fmt: skip
        if not allowed:
            if not sequences:
                return None
            chosen[constraint.type_param_str] = sequences[rng.integers(len(sequences))]
            continue
        if "tensor(float)" in allowed and rng.random() < 0.8:
            allowed = ["tensor(float)"]
        chosen[constraint.type_param_str] = allowed[rng.integers(len(allowed))]
    return chosen


def candidate(rng, schema, version):
    """A network that may be valid, or None."""
    types = resolve(rng, schema)
    if types is None:
        return None
    network = Network(schema.domain, schema.name, version)
    network.scale = SCALES[rng.integers(len(SCALES))]
    base = drawn_shapes(rng)
    formals = list(schema.inputs)
    if formals and formals[-1].option == OpSchema.FormalParameterOption.Variadic:
        formals += [formals[-1]] * int(rng.integers(0, 4))
    optional = rng.random()
    for i, formal in enumerate(formals):
        type_of = types.get(formal.type_str, formal.type_str)
        if formal.option == OpSchema.FormalParameterOption.Optional and rng.random() < optional:
            network.inputs.append(("none", "", []))
            continue
        if wrapped := re.fullmatch(r"(seq|optional)\((.*)\)", type_of):
            network.inputs.append((wrapped[1], wrapped[2], like(rng, base)))
            continue
        if type_of not in TYPES:
            return None
        wants_value = 0.8 if type_of in FLOATS else 0.5 if i == 0 else 0.2
        if type_of == "tensor(string)":  # crumb takes no constants of texts
            wants_value = 1
        if rng.random() < wants_value:
            network.inputs.append(("value", type_of, list(base) if i == 0 else like(rng, base)))
        else:
            network.inputs.append(("constant", type_of, constant_of(rng, type_of, base)))
    while network.inputs and network.inputs[-1][0] == "none":
        network.inputs.pop()
    if schema.name == "If":  # what its branches see
        network.inputs.append(("value", "tensor(float)", base))
    extra = rng.random() * 0.5
    for name, attribute in schema.attributes.items():
        if attribute.required or rng.random() < extra:
            value = drawn_attribute(rng, name, attribute, base)
            if value is None and attribute.required and not (value := body_of(schema.name, name)):
                return None
            if value is not None:
                network.attributes[name] = value
    least = max(schema.min_output, 1)
    most = min(len(schema.outputs), 4) if schema.max_output < 100 else max(least, int(rng.integers(1, 4)))
    network.outputs = least if rng.random() < 0.5 else max(least, most)
    network.output = int(rng.integers(network.outputs))
    return network


# Bodies of control flow: of what goes through them.


def graph_of(nodes, inputs, outputs):
    info = lambda name, elem: helper.make_tensor_value_info(name, elem, None)  # noqa: E731
    return helper.make_graph(nodes, "body", [info(*i) for i in inputs], [info(*o) for o in outputs])


def branch(builder, values):
    name = f"b{len(builder.nodes)}"
    return graph_of([helper.make_node("Identity", [values[-1]], [name])], [], [(name, TensorProto.FLOAT)])


def loop_body(builder, values):
    at = f"b{len(builder.nodes)}"
    carried = range(len(values) - 2)
    nodes = [helper.make_node("Identity", [f"{at}c"], [f"{at}d"])]
    nodes += [helper.make_node("Identity", [f"{at}i{i}"], [f"{at}o{i}"]) for i in carried]
    return graph_of(nodes, [(f"{at}i", TensorProto.INT64), (f"{at}c", TensorProto.BOOL),
                            *((f"{at}i{i}", TensorProto.FLOAT) for i in carried)],
                    [(f"{at}d", TensorProto.BOOL), *((f"{at}o{i}", TensorProto.FLOAT) for i in carried)])  # fmt: skip


def map_body(builder, values):
    at, values = f"b{len(builder.nodes)}", [value for value in values if value]
    nodes = [helper.make_node("Identity", [f"{at}i{i}"], [f"{at}o{i}"]) for i in range(len(values))]
    names = lambda kind: [(f"{at}{kind}{i}", TensorProto.FLOAT) for i in range(len(values))]  # noqa: E731
    return graph_of(nodes, names("i"), names("o"))


def body_of(op, attribute):
    return {("If", "then_branch"): branch, ("If", "else_branch"): branch, ("Loop", "body"): loop_body,
            ("Scan", "body"): map_body, ("SequenceMap", "body"): map_body}.get((op, attribute))  # fmt: skip


def head_of(schema, version, opset, network):
    """What must follow the operator for a float32 tensor; raises where onnx refuses the model, None where nothing can."""
    builder = Builder(imports_of(schema.domain, version, opset))
    made = builder.add(network, [])
    model = builder.model([onnx.ValueInfoProto(name=made)])
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    made = inferred.graph.output[0].type
    if made.HasField("tensor_type") and made.tensor_type.elem_type:
        return made.tensor_type.elem_type != TensorProto.FLOAT
    for kind in ("sequence", "optional"):
        if made.HasField(f"{kind}_type") and getattr(made, f"{kind}_type").elem_type.HasField("tensor_type"):
            return "seq" if kind == "sequence" else kind
    # Some of old infer nothing.
    formal = schema.outputs[min(network.output, len(schema.outputs) - 1)]
    return True if made.WhichOneof("value") is None and any(t.startswith("tensor(") for t in formal.types) else None


def network_of(rng, schema, version, opset):
    """A network that onnx.checker takes, or None."""
    for _ in range(TRIES):
        network = candidate(rng, schema, version)
        if network is None:
            continue
        try:
            network.casts = head_of(schema, version, opset, network)
            if network.casts is None:
                continue
            builder = Builder(imports_of(schema.domain, version, opset))
            builder.finish(network, builder.add(network))
            onnx.checker.check_model(builder.model(), full_check=True)
        except Exception:  # noqa: BLE001 (onnx's own, of several types)
            continue
        return network
    return None


def drawn_apart(seed, schemas):
    """network_of for each (schema, operator set of ONNX), in processes of their own: onnx aborts at some that is drawn."""
    found, rounds = [], 0
    while len(found) < len(schemas):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(writer, "wb") as file:
                for schema, opset in schemas[len(found) :]:
                    rng = np.random.default_rng([seed, len(found), rounds])
                    pickle.dump(network_of(rng, schema, schema.since_version, opset), file)
                    file.flush()
                    found.append(None)
            os._exit(0)
        os.close(writer)
        before = len(found)
        with os.fdopen(reader, "rb") as file:
            while len(found) < len(schemas):
                try:
                    found.append(pickle.load(file))  # noqa: S301 (our own child's)
                except EOFError:
                    break
        os.waitpid(child, 0)
        rounds = rounds + 1 if len(found) == before else 0
        if rounds == 4:
            found.append(None)
            rounds = 0
    return found
