"""Random networks with If, Loop and Scan, as ONNX models, and what onnxruntime computes with them.

Values are float32 matrices. A value whose shape depends on a branch is summed up before anything else takes it.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSETS = [11, 13, 16, 18]
UNARY = ["Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Identity"]


class Scope:
    """A graph that is being drawn: its nodes, its constants, and the values that it sees, with their shapes."""

    def __init__(self, drawing, around=None):
        self.drawing, self.around = drawing, around
        self.nodes, self.constants = [], []
        self.seen = dict(around.seen) if around else {}
        self.depth = around.depth + 1 if around else 0
        self.own = set()

    def name(self):
        # The two branches of an If, and branches of different Ifs, may use a name twice.
        prefix = f"b{self.depth}_" if self.depth and self.drawing.reuses else "v"
        for i in range(len(self.nodes), 1000):
            name = f"{prefix}{i}"
            if name not in self.drawing.taken_by(self):
                return self.drawing.take(self, name)
        raise AssertionError

    def node(self, op, inputs, outputs=1, **attributes):
        made = [self.name() for _ in range(outputs)]
        name = "" if self.drawing.rng.random() < 0.2 else f"{op}_{len(self.nodes)}"  # unique in its graph alone
        self.nodes.append(helper.make_node(op, inputs, made, name=name, **attributes))
        return made if outputs > 1 else made[0]

    def constant(self, value):
        value, name = np.asarray(value), self.name()
        tensor = numpy_helper.from_array(value, name)
        if self.drawing.rng.random() < 0.5:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        return name

    def add(self, name, shape):
        self.seen[name] = shape
        self.own.add(name)
        return name

    def graph(self, inputs, outputs):
        info = lambda name, kind: helper.make_tensor_value_info(name, kind, None if kind == FLOAT else [])  # noqa: E731
        return helper.make_graph(self.nodes, f"g{self.depth}", [info(*i) for i in inputs], [info(*o) for o in outputs], self.constants)


class Drawing:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.reuses = bool(self.rng.random() < 0.5)
        self.is_open = bool(self.rng.random() < 0.4)
        self.flags = 0
        self.names = []  # (scope, name)

    def take(self, scope, name):
        self.names.append((scope, name))
        return name

    def taken_by(self, scope):
        """Names that must not be given in this scope: its own, and those around it. Without reuse: all."""
        if not self.reuses:
            return {name for _, name in self.names}
        around = []
        while scope:
            around.append(scope)
            scope = scope.around
        return {name for of, name in self.names if of in around}

    def pick(self, scope, shape=None):
        fitting = [n for n, s in scope.seen.items() if s is not None and (shape is None or s == shape)]
        return str(self.rng.choice(fitting)) if fitting else None

    def reduced(self, scope, value):
        """The mean of a value of whatever shape, of shape []."""
        if self.opset < 18:
            return scope.node("ReduceMean", [value], keepdims=0)
        return scope.node("ReduceMean", [value], keepdims=0)

    def condition(self, scope):
        kind = self.rng.choice(["constant", "flag", "value", "size", "rank", "not"], p=[0.15, 0.3, 0.2, 0.15, 0.1, 0.1])
        if kind == "constant":
            return scope.constant(np.array(self.rng.random() < 0.5))
        if kind == "flag":
            self.flags = max(self.flags, 1)
            return f"flag{self.rng.integers(0, 2)}" if self.flags > 1 or self._more_flags() else "flag0"
        if kind == "value":
            mean = self.reduced(scope, "x0")
            return scope.node("Greater", [mean, scope.constant(np.float32(self.rng.normal() / 8))])
        if kind == "not":
            return scope.node("Not", [self.condition(scope)])
        shape = scope.node("Shape", [self.pick(scope)])
        if kind == "rank":
            return scope.node("Equal", [scope.node("Size", [shape]), scope.constant(np.int64(self.rng.integers(1, 4)))])
        size = scope.node("Gather", [shape, scope.constant(np.int64(self.rng.integers(0, 2)))], axis=0)
        return scope.node("Equal", [size, scope.constant(np.int64(self.rng.integers(2, 4)))])

    def _more_flags(self):
        self.flags = 2
        return True

    def step(self, scope):
        """Adds a node, or control flow, to the scope."""
        kind = self.rng.random()
        if kind < 0.12 and scope.depth < 3:
            return self.branch(scope)
        if kind < 0.2 and scope.depth < 2:
            return self.loop(scope)
        if kind < 0.26 and scope.depth < 2:
            return self.scan(scope)
        value = self.pick(scope)
        shape = scope.seen[value]
        if kind < 0.45:
            return scope.add(scope.node(str(self.rng.choice(UNARY)), [value]), shape)
        if kind < 0.65:
            other = self.pick(scope, shape)
            return scope.add(scope.node(str(self.rng.choice(["Add", "Mul", "Sub"])), [value, other]), shape)
        if kind < 0.75:
            return scope.add(scope.node("Transpose", [value], perm=[1, 0]), shape[::-1])
        wide = shape[1] if isinstance(shape[1], int) else None
        if wide is None:
            return scope.add(scope.node("Tanh", [value]), shape)
        made = int(self.rng.integers(1, 5))
        weight = scope.constant(self.rng.normal(size=(wide, made)).astype(np.float32))
        return scope.add(scope.node("MatMul", [value, weight]), (shape[0], made))

    def steps(self, scope, least=1, most=4):
        for _ in range(int(self.rng.integers(least, most + 1))):
            self.step(scope)

    def branch(self, scope):
        condition = self.condition(scope)
        outputs = int(self.rng.integers(1, 4))
        graphs, shapes = [], []
        for _ in range(2):
            inner = Scope(self, scope)
            self.steps(inner, 0, 4)
            made = []
            for _ in range(outputs):
                value = self.pick(inner)
                # onnxruntime gives nothing for the second of two outputs that are one value.
                if value not in inner.own or value in made or self.rng.random() < 0.2:
                    value = inner.add(inner.node("Identity", [value]), inner.seen[value])
                made.append(value)
            shapes.append([inner.seen[value] for value in made])
            graphs.append(inner.graph([], [(value, FLOAT) for value in made]))
        made = scope.node("If", [condition], outputs, then_branch=graphs[0], else_branch=graphs[1])
        for value, *of in zip([made] if outputs == 1 else made, *shapes):
            if of[0] == of[1]:
                scope.add(value, of[0])
            else:
                mean = self.reduced(scope, value)
                other = self.pick(scope)
                scope.add(scope.node("Add", [mean, other]), scope.seen[other])

    def state(self, inner, before, shape):
        """A value of this shape that depends on `before`."""
        other = self.pick(inner, shape)
        return inner.node("Tanh", [inner.node("Add", [before, other])])

    def loop(self, scope):
        inner = Scope(self, scope)
        trip, condition = inner.name(), inner.name()
        states = [self.pick(scope) for _ in range(int(self.rng.integers(0, 3)))]
        names = [inner.add(inner.name(), scope.seen[state]) for state in states]
        self.steps(inner, 1, 3)
        kept = [self.state(inner, name, scope.seen[state]) for name, state in zip(names, states)]
        scans = [inner.node("Identity", [self.pick(inner)]) for _ in range(int(self.rng.integers(0 if states else 1, 3)))]
        trips = int(self.rng.integers(0 if not scans else 1, 4))
        kind = self.rng.choice(["passed", "constant", "counted", "lent"])
        if kind == "passed":
            goes_on = inner.node("Identity", [condition])
        elif kind == "constant":
            goes_on = inner.node("Identity", [inner.constant(np.array(True))])
        else:
            after = inner.node("Add", [trip, inner.constant(np.int64(1))])
            goes_on = inner.node("Less", [after, inner.constant(np.int64(max(trips, 1)))])
        body = inner.graph([(trip, INT64), (condition, BOOL)] + [(name, FLOAT) for name in names],
                           [(goes_on, BOOL)] + [(value, FLOAT) for value in kept + scans])  # fmt: skip
        count = "" if kind == "lent" and trips > 0 else scope.constant(np.int64(trips))
        if kind == "lent" and trips > 0 and self.opset < 13:
            count = scope.constant(np.int64(7))  # the condition ends it
        start = "" if self.rng.random() < 0.5 and count else scope.constant(np.array(True))
        if count and self.rng.random() < 0.4:  # one trip more where a flag says so: known when it runs
            self.flags = max(self.flags, 1)
            count = scope.node("Add", [count, scope.node("Cast", ["flag0"], to=INT64)])
        if not scans and self.rng.random() < 0.3:
            self.flags = self.flags or 1
            start = "flag0"
        made = scope.node("Loop", [count, start, *states], len(kept + scans), body=body)
        made = [made] if isinstance(made, str) else made
        for value, state in zip(made, states):
            scope.add(value, scope.seen[state])
        self.sum_up(scope, made[len(states) :])

    def sum_up(self, scope, values):
        for value in values:
            other = self.pick(scope)
            scope.add(scope.node("Add", [self.reduced(scope, value), other]), scope.seen[other])

    def scan(self, scope):
        inner = Scope(self, scope)
        sequence = self.pick(scope)
        axis = int(self.rng.integers(0, 2))
        shape = scope.seen[sequence]
        states = [self.pick(scope) for _ in range(int(self.rng.integers(0, 2)))]
        names = [inner.add(inner.name(), scope.seen[state]) for state in states]
        row = inner.name()
        self.steps(inner, 0, 2)
        total = inner.node("Tanh", [inner.node("Add", [row, self.reduced(inner, self.pick(inner))])])
        kept = [inner.node("Tanh", [inner.node("Add", [name, self.reduced(inner, total)])]) for name in names]
        body = inner.graph([(name, FLOAT) for name in names] + [(row, FLOAT)], [(value, FLOAT) for value in [*kept, total]])
        out_axis = int(self.rng.integers(0, 2))
        made = scope.node("Scan", [*states, sequence], len(kept) + 1, body=body, num_scan_inputs=1,
                          scan_input_axes=[axis - (2 if self.rng.random() < 0.3 else 0)],
                          scan_input_directions=[int(self.rng.integers(0, 2))],
                          scan_output_axes=[out_axis], scan_output_directions=[int(self.rng.integers(0, 2))])  # fmt: skip
        made = [made] if isinstance(made, str) else made
        for value, state in zip(made, states):
            scope.add(value, scope.seen[state])
        rows = (shape[axis], shape[1 - axis])
        scope.add(made[-1], rows if out_axis == 0 else rows[::-1])

    def model(self):
        outer = Scope(self)
        rows = [int(self.rng.integers(2, 4)) for _ in range(2)]
        inputs = []
        for i in range(2):
            columns = int(self.rng.integers(2, 4))
            stated = [f"rows{i}" if self.is_open else rows[i], columns]
            inputs.append((f"x{i}", stated, (rows[i], columns)))
            outer.add(self.take(outer, f"x{i}"), tuple(stated))
        for i in range(2):
            self.take(outer, f"flag{i}")
        self.steps(outer, 3, 7)
        if not any(node.op_type in ("If", "Loop", "Scan") for node in outer.nodes):
            self.branch(outer)
        outputs = [name for name in list(outer.seen)[-int(self.rng.integers(1, 4)) :] if name not in ("x0", "x1")]
        info = [helper.make_tensor_value_info(name, FLOAT, stated) for name, stated, _ in inputs]
        info += [helper.make_tensor_value_info(f"flag{i}", BOOL, []) for i in range(2)]
        graph = helper.make_graph(outer.nodes, "drawn", info, [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
                                  outer.constants)  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        sizes = {name: size for name, _, size in inputs}
        return model, sizes

    def feed(self, sizes, flags):
        feed = {name: self.rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}
        return feed | {f"flag{i}": np.array(bool(flags >> i & 1)) for i in range(2)}


def runner(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # Its own inlining of branches crashes on some of these models.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def draw(seed, folder):
    """Writes a case: a model, and inputs and outputs for each setting of the flags. Returns false where onnxruntime does
    not take the model."""
    drawing = Drawing(seed)
    model, sizes = drawing.model()
    try:
        session = runner(model.SerializeToString())
        runs = [(feed, session.run(None, feed)) for feed in (drawing.feed(sizes, flags) for flags in range(4))]
    except Exception as error:  # noqa: BLE001: onnxruntime's errors have no common type
        return str(error)
    if any(array is None for _, made in runs for array in made):
        return "onnxruntime leaves an output out"
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for i, (feed, made) in enumerate(runs):
        part = folder / f"test_data_set_{i}"
        part.mkdir()
        for kind, arrays in (("input", feed.values()), ("output", made)):
            for k, array in enumerate(arrays):
                (part / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(array), f"{kind}{k}").SerializeToString())
    return ""
