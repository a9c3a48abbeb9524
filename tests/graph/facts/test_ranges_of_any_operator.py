"""What `verify --accumulator` knows behind any operator there is: nothing, where the table of rules has no row for it.

Every operator and version that onnx lists, and all of qonnx's own, stand between a quantizer and a dense layer
(schema_networks.py). Where there is a row, and a range is claimed, the operator runs on levels of its inputs.
"""

import json
import os
import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
import schema_networks as draw  # noqa: E402
from onnx import helper  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
ROUNDS = 12 if SLOW else 1
OFF_GRID = 0.05  # of a step
OTHERS = 17  # the operator set of ONNX beside another domain's
MISSING = set()
DOMAINS = {'""': "", "kQonnxDomain": draw.GENERAL, "kChannelsLastDomain": draw.LAST}


def table(repo):
    """(domain, operator) of each row, and of how many outputs it speaks."""
    text = (repo / "graph/operator_traits.cpp").read_text()
    rows = re.findall(r'^    \{(""|\w+),\s+"(\w+)",([^{}]*)RangeForm::(?!kUnknown)', text, re.M)
    assert len(rows) > 60
    return {(DOMAINS[domain], op): 100 if "kAllOutputs" in traits else 1 for domain, op, traits in rows}


def schemas(seed):
    """Every operator's newest version, and some of the older ones."""
    newest, rng, chosen = {}, np.random.default_rng(seed), []
    every = [one for one in onnx.defs.get_all_schemas_with_history() if not one.deprecated]
    for one in every:
        key = (one.domain, one.name)
        newest[key] = max(newest.get(key, 0), one.since_version)
    for one in every:
        if SLOW or one.since_version == newest[one.domain, one.name] or rng.random() < 0.3:
            chosen.append((one, one.since_version if one.domain == "" else OTHERS))
    assert len(newest) > 200
    return chosen


def drawn(seed):
    """Networks by what their file imports, and those operators that none was found for."""
    chosen = schemas(seed)
    files, missing = {}, []
    for (schema, opset), network in zip(chosen, draw.drawn_apart(seed, chosen), strict=True):
        if network is None:
            missing.append(f"{schema.domain or 'ai.onnx'}.{schema.name}-{schema.since_version}")
        else:
            key = frozenset(draw.imports_of(schema.domain, schema.since_version, opset).items())
            files.setdefault(key, []).append(network)
    return files, missing


def claims_of(crumb, builder, path):
    onnx.save(builder.model(), path)
    done = crumb("verify", path, "--accumulator", "--json", status=None)
    assert done.returncode in (0, 1), done.stderr
    if not done.stdout:
        return None
    claims = {}
    for layer in json.loads(done.stdout)["layers"]:  # products inside of the operator itself have other names
        claims[layer["name"]] = layer
    return claims


def control(builder):
    """A network of a known range."""
    network = draw.Network("", "Identity", builder.opset)
    builder.finish(network, builder.node("Identity", [builder.quantized([2, 3], 0.5)]))


def claims_of_all(crumb, imports, networks, path, refused):
    """(network, claim) of networks in one file; where that is refused, each in its own."""
    builder = draw.Builder(imports)
    control(builder)
    for network in networks:
        builder.finish(network, builder.add(network))
    claims = claims_of(crumb, builder, path)
    if claims is None and len(networks) == 1:
        refused.update((network.domain, network.op) for network in networks)
    elif claims is None:
        for network in networks:
            yield from claims_of_all(crumb, imports, [network], path, refused)
    else:
        assert claims["layer0"]["input"] == [draw.LOW, draw.HIGH]  # and so the file is read as it is meant
        yield from ((network, claims.get(name)) for name, network in list(builder.networks.items())[1:])


def values_for(rng, shape, scale, elem):
    kind = helper.tensor_dtype_to_np_dtype(elem)
    if kind == object:
        return np.full(shape, "1", object)
    how = rng.integers(4)
    levels = rng.integers(draw.LOW, draw.HIGH + 1, shape) if how < 2 else np.full(shape, [draw.LOW, draw.HIGH][how - 2])
    return np.asarray(levels * scale).astype(kind)


def runner(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda feeds: session.run(None, feeds)
    except Exception:  # noqa: BLE001 (onnxruntime's own, of several types)
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model)
        return lambda feeds: evaluator.run(None, feeds)


def held(rng, network, imports, claim):
    """Whether the operator ran; what it gives lies in what is claimed."""
    builder, feeds = draw.Builder(imports), []
    made = builder.add(network, feeds)
    if network.casts == "seq":
        made = builder.node("SequenceAt", [made, builder.constant(0, np.int64)])
    model = builder.model([helper.ValueInfoProto(name=made)])
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    ran = False
    try:
        run = runner(model)
    except Exception:  # noqa: BLE001 (neither has it)
        return False
    for _ in range(12):
        inputs = {name: values_for(rng, shape, scale, elem) for name, shape, scale, elem in feeds}
        try:
            found = np.asarray(run(inputs)[0]).astype(np.float64)
        except Exception:  # noqa: BLE001 (it runs there on other shapes or types only)
            continue
        ran = True
        levels = found[~np.isnan(found)] / claim["input_step"]
        low, high = claim["input"]
        if levels.size:
            assert levels.min() >= low - OFF_GRID and levels.max() <= high + OFF_GRID, (network, claim, levels)
            assert np.abs(levels - np.round(levels)).max() <= OFF_GRID, (network, claim, levels)
    return ran


READ_AS_OTHERS = {("", "Scan"), ("", "Loop"), ("", "If")}  # the nodes of their bodies are in their place


def test_what_has_no_row_is_unknown_and_what_has_one_holds(crumb, repo, tmp_path):
    rows, rng = table(repo), np.random.default_rng(0)
    missing, known, ran, unknown, refused = None, set(), set(), set(), set()
    for seed in range(ROUNDS):
        files, not_found = drawn(seed)
        missing = set(not_found) if missing is None else missing & set(not_found)
        for imports, networks in files.items():
            for network, claim in claims_of_all(crumb, imports, networks, tmp_path / "m.onnx", refused):
                op = (network.domain, network.op)
                if claim is None or claim["input"] is None:
                    unknown.add(op)
                    continue
                assert op in READ_AS_OTHERS or network.output < rows.get(op, 0), f"{network} has no row, and {claim} is claimed"
                known.add(op)
                if "input_step" in claim and held(rng, network, imports, claim):
                    ran.add(op)
    print(f"{len(unknown)} operators unknown, {len(known)} known, {len(ran)} of them ran, refused {refused}")
    assert len(unknown) > 150
    assert len(known) >= 35 and len(ran) >= 25
    MISSING.update(missing)
    assert len(missing) < 10


def test_a_network_was_found_for_every_operator():
    if MISSING:
        pytest.skip(f"no valid network was drawn of {', '.join(sorted(MISSING))}")


def qonnx_operators():
    """Each with the attributes that it declares: (kind, required, default, allowed)."""
    registry = pytest.importorskip("qonnx.custom_op.registry")
    for domain in (draw.GENERAL, draw.LAST):
        for op, kind in registry.get_ops_in_domain(domain):
            yield domain, op, kind(helper.make_node(op, [], [], domain=domain)).get_nodeattr_types()


def attributes_of(rng, declared):
    drawn = {"i": lambda: int(rng.integers(0, 5)), "f": lambda: float(rng.choice([0.0, 0.5, 1.0, 2.0])),
             "s": lambda: str(rng.choice(["INT4", "UINT2", "NHWC", "NCHW", "ROUND", "(1, 4, 4, 2)"])),
             "ints": lambda: [int(n) for n in rng.integers(0, 3, rng.integers(1, 5))]}  # fmt: skip
    return {name: drawn[kind]() for name, (kind, required, *_) in declared.items() if required or rng.random() < 0.7}


def test_what_qonnx_has_and_the_table_has_not_is_unknown(crumb, repo, tmp_path):
    rows, rng, seen = table(repo), np.random.default_rng(1), set()
    operators = [(domain, op, declared) for domain, op, declared in qonnx_operators() if (domain, op) not in rows]
    operators += [(draw.LAST, "Relu", {}), (draw.GENERAL, "Identity", {}), ("finn.custom_op.fpgadataflow", "MVAU", {})]
    assert len(operators) >= 7
    for domain, op, declared in operators * (40 if SLOW else 4):
        builder = draw.Builder({**draw.imports_of(draw.GENERAL, 1, OTHERS), "finn.custom_op.fpgadataflow": 1})
        control(builder)
        shape = [[2, 3], [1, 4, 4, 2], [1, 2, 4, 4]][rng.integers(3)]
        inputs = [builder.quantized(shape, 0.5)]
        for _ in range(rng.integers(0, 5)):
            other = draw.like(rng, shape)
            inputs.append(builder.quantized(other, 0.5) if rng.random() < 0.5
                          else builder.constant(rng.integers(0, 2, other)))  # fmt: skip
        made = builder.node(op, inputs, domain, **attributes_of(rng, declared))
        builder.finish(draw.Network(domain, op, 1), made)
        claims = claims_of(crumb, builder, tmp_path / "m.onnx")
        if claims is None:
            continue  # inputs or attributes that the operator does not take
        assert claims["layer0"]["input"] == [draw.LOW, draw.HIGH]
        assert claims["layer1"]["input"] is None, (domain, op, claims)
        seen.add(op)
    assert len(seen) >= len(operators) - 1, seen
