"""Makes the seeds of the fuzz targets anew, the same bytes each time: small files that reach deep into each reader.

    python tests/fuzz/make_corpus.py build/crumb            with the Python environment of scripts/setup

The targets' own finds are kept in build-fuzz/corpus/ and are no part of the repository, but for FINDS.
"""

import base64
import io
import json
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import gguf
import numpy as np
import onnx
import torch

REPO = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).resolve().parent / "corpus"
FINDS = ["runtime/node_without_inputs", "runtime/padding_of_many_rows"]  # that ended a process once: they stay as they are
sys.path.insert(0, str(REPO / "tests/formats/crumb_file"))
sys.path.insert(0, str(REPO / "tests/formats/torch_pickle"))
sys.path.insert(0, str(REPO / "tests/runtime"))
sys.path.insert(0, str(REPO / "tests/text"))
import chat_programs  # noqa: E402
import crumb_builder  # noqa: E402
import crumb_reader  # noqa: E402
import test_integers  # noqa: E402
import test_reader  # noqa: E402
from python_2_pickler import Python2Pickler  # noqa: E402


def put(target, name, content):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def values(*shape, dtype="<f4"):
    """Small numbers that every type can hold."""
    return (np.arange(int(np.prod(shape)), dtype="<f4").reshape(shape) % 7 - 3).astype(dtype)


def safetensors_file(tensors):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        test_reader.write_safetensors(path, tensors)
        return path.read_bytes()


def f32(*shape):
    return ("F32", shape, values(*shape).tobytes())


def crumb(binary):
    """A file for each way to encode: an execution takes as long as its header does."""
    specs = [
        "int4:group=8", "uint3:group=8:zero=int", "e2m1:group=8:scale=e8m0", "int8:channel",
        "uint5:channel:zero=float", "e4m3fn:channel", "binary", "ternary", "int2h:block=2x8:scale=bf16",
        "int4:tensor:range=full", "palette2:tensor", "palette4:channel", "nf4:group=16", "mxfp4:pad", "nvfp4:pad",
        "mxint8:pad",
    ]  # fmt: skip
    for spec in specs:
        for how, shape in (("", (2, 16)), ("zstd", (2, 512)), ("tiles", (16, 16))):  # less is not compressed, or in tiles
            with tempfile.TemporaryDirectory() as folder:
                folder, out = Path(folder) / "model", Path(folder) / "out.crumb"
                folder.mkdir()
                test_reader.write_safetensors(folder / "model.safetensors", {"a.weight": f32(*shape), "a.bias": f32(5)})
                (folder / "config.json").write_text("{}\n")
                flags = {"": [], "zstd": ["--zstd", "19"], "tiles": ["--layout", "tiles"]}[how]
                command = [binary, "quantize", folder, "-o", out, "--weights", spec, *flags]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                name = spec.replace(":", "_").replace("=", "_") + (how and "_" + how)
                put("crumb", name + ".crumb", out.read_bytes())
                if how != "tiles":
                    put("crumb", name + "_1.crumb", as_version_1(out))
    for spec, batch, keys in (("int4", [2], {}), ("uint3", [2, 2], {"zero": "int", "layout": "tiles", "block": (1, 8)}),
                              ("palette2", [3], {"block": (4, 4)}), ("e2m1", [2], {"scale": "e4m3", "tensor_scale": 0.5})):  # fmt: skip
        header = {"format": "crumb", "model": "", "tensors": [crumb_builder.stacked("w", batch, (3, 9), number=spec, **keys)], "files": []}
        put("crumb", f"stack_{spec}.crumb", crumb_builder.layout(header, size=1 << 9))
    put("crumb", "wrapping.crumb", wrapping_packed_file())


def as_version_1(path):
    """The same file as it was written before there were layouts."""
    data = path.read_bytes()
    header = json.loads(data[64 : 64 + int.from_bytes(data[16:24], "little")])
    del header["features"]
    for entry in header["tensors"] + header["files"]:
        for part in set(crumb_reader.PARTS) & set(entry):
            blob = entry[part]
            content = data[blob["offset"] : blob["offset"] + blob["stored"]]
            entry[part] = crumb_builder.Part(content, raw=blob["raw"], codec=blob["codec"])
    return crumb_builder.layout(header, version=1, size=1 << 9)


def wrapping_packed_file():
    """Four files of 2^62 bytes: in 64 bits their sum is nothing, so that they end where the file of 768 bytes does."""
    at = [f'"offset":{(768 + (i << 62)) % 2**64},"stored":{1 << 62},"raw":{1 << 62},' for i in range(4)]
    paths = ["graph.onnx", "config.json", "tokenizer.json", "vocab.txt"]
    files = [f'{{"path":"{path}","data":{{{place}"codec":"none","crc32":"00000000"}}}}' for path, place in zip(paths, at)]
    text = '{"format":"crumb","model":"graph","tensors":[],"files":[\n' + ",\n".join(files) + "]}\n"
    assert len(text) <= 768 - 64
    return test_reader.seal(text.ljust(768 - 64).encode(), b"", version=1)


def safetensors():
    put("safetensors", "two", safetensors_file({"a": f32(2, 3), "b.weight": ("I8", (5,), bytes(5))}))
    put("safetensors", "none", safetensors_file({}))
    put("safetensors", "ranks", safetensors_file({"s": f32(), "e": ("BF16", (0, 4), b""), "d": f32(1, 1, 2, 1)}))
    sizes = {"BOOL": 1, "F4": 0.5, "F6_E2M3": 0.75, "F8_E4M3": 1, "F16": 2, "C64": 8, "F64": 8, "U64": 8}
    put("safetensors", "dtypes", safetensors_file({k: (k, (4,), bytes(int(4 * n))) for k, n in sizes.items()}))
    text = b'{"__metadata__":{"format":"pt","\\u00e9":"\\n"},"x":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}  '
    put("safetensors", "metadata", len(text).to_bytes(8, "little") + text + b"\1")


def npy_bytes(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def npy():
    for kind in ("<f4", ">f4", "<f2", "<f8", "|b1", "|i1", "<u2", ">i8", "<c8"):
        name = kind.replace("<", "le_").replace(">", "be_").replace("|", "")
        put("npy", name, npy_bytes(values(2, 3, dtype=kind)))
    put("npy", "fortran", npy_bytes(np.asfortranarray(values(3, 2, 2))))
    put("npy", "scalar", npy_bytes(values()))
    put("npy", "empty", npy_bytes(values(0, 3)))
    for version in ((2, 0), (3, 0)):
        put("npy", f"version{version[0]}", npy_bytes(values(4), version))


def zip_bytes(members, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, content)
    return file.getvalue()


def npz():
    arrays = {"a.npy": npy_bytes(values(2, 3)), "b/c.npy": npy_bytes(np.asfortranarray(values(3, 2, dtype=">f8")))}
    others = {"objects.npy": b"\x93NUMPY\1\0\x36\0{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n", "x": b"?"}
    for name, members in (("arrays", arrays), ("others", arrays | others), ("none", {})):
        put("npz", name, zip_bytes(members, zipfile.ZIP_STORED))
        put("npz", name + "_deflated", zip_bytes(members, zipfile.ZIP_DEFLATED))
    file = io.BytesIO()
    np.savez(file, values(2))  # with zip64 extra fields and 1980's date
    put("npz", "numpy", file.getvalue())
    # Without the zip around it, which the target adds.
    put("npz", "bare", npy_bytes(values(2, 2)))


def index():
    # The shards are those of index_fuzz.cpp.
    places = {"a": "one.safetensors", "b": "one.safetensors", "c.weight": "two.safetensors"}
    whole = json.dumps({"metadata": {"total_size": 19}, "weight_map": places})
    config = json.dumps({"architectures": ["BertModel"], "is_encoder_decoder": False, "model_type": "bert"})
    quantized = json.dumps({"quantization_config": {"quant_method": "gptq"}})
    modules = json.dumps([{"idx": 0, "path": ""}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "x"}])
    put("index", "whole", "\x1e".join([whole, config, modules]))
    put("index", "alone", whole)
    put("index", "quantized", whole + "\x1e" + quantized)
    for name, changed in (
        ("sub", {"d": "sub/three.safetensors"}), ("twice", places | {"d": "sub/three.safetensors"}),
        ("outside", {"a": "../one.safetensors"}), ("elsewhere", {"a": "two.safetensors"}), ("none", {}),
    ):  # fmt: skip
        put("index", name, json.dumps({"weight_map": changed}))


def stream_bytes(saved, pickler, with_views):
    """What torch.save wrote before 1.6, and in it the pickled object; storages are named by their order, not by their addresses."""
    storages = {}

    class Pickler(pickler):
        def persistent_id(self, value):
            is_typed = isinstance(value, torch.storage.TypedStorage)
            if not is_typed and not torch.is_storage(value):
                return None
            storage = value._untyped_storage if is_typed else value
            kind = getattr(torch, value._pickle_storage_type()) if is_typed else torch.UntypedStorage
            count = value._size() if is_typed else storage.nbytes()
            key = storages.setdefault(storage._cdata, (str(len(storages)), count, storage))[0]
            return ("storage", kind, key, "cpu", count, ("v" + key, 0, count) if with_views else None)

    written = io.BytesIO()
    Pickler(written, 2).dump(saved)
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    keys = [key for key, *_ in storages.values()]
    pickles = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, system)]
    contents = [struct.pack("<q", count) + bytes(storage.tolist()) for _, count, storage in storages.values()]
    return b"".join([*pickles, written.getvalue(), pickle.dumps(keys, 2), *contents]), written.getvalue()


def torch_files():
    # Pickled first, these are the storages 0 to 4 that torch_fuzz.cpp gives a pickle without an archive.
    floats, half, shared = torch.arange(6.0), torch.zeros(4, dtype=torch.bfloat16), torch.arange(16.0)
    f8, flags = torch.ones(3).to(torch.float8_e4m3fn), torch.ones(2, dtype=torch.bool)
    layers = OrderedDict({"0.weight": floats.reshape(2, 3), "0.bias": half})
    others = {
        "views": {"f": floats, "h": half, "a": shared[2:8:2], "b": shared.reshape(4, 4).T, "c": shared[3]},
        "wrapper": {"model": {"net": layers}, "optimizer": {"state": {}, "param_groups": []}, "epoch": 3,
                    "lr": 0.1, "name": "x", "done": True, "none": None, "sizes": (1, 2), "big": 2**80},
        "types": {"p": torch.nn.Parameter(floats), "l": [half, (shared, f8)], "b": flags, "z": torch.ones(0),
                  "s": torch.Size([1, 2]), "d": torch.float16, "dev": torch.device("cpu")},
    }  # fmt: skip
    for name, saved in {"layers": layers, **others}.items():
        file = io.BytesIO()
        torch.save(saved, file)
        # Again, without the padding to 64 bytes, and the pickle alone, which the target puts into an archive.
        with zipfile.ZipFile(file) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        kept = ("/data.pkl", "/byteorder", "/version")
        small = {m: c for m, c in members.items() if "/data/" in m or m.endswith(kept)}
        put("torch", name + ".pt", zip_bytes(small, zipfile.ZIP_STORED))
        put("torch", name + "_deflated.pt", zip_bytes(small, zipfile.ZIP_DEFLATED))
        put("torch", name + ".pkl", next(c for m, c in members.items() if m.endswith("/data.pkl")))
        if name == "layers":
            put("torch", "padded.pt", file.getvalue())
        for pickler in (pickle.Pickler, Python2Pickler):
            stream, written = stream_bytes(saved, pickler, with_views=name == "views")
            label = name + ("_python2" if pickler is Python2Pickler else "")
            put("torch", label + "_stream.pt", stream)
            put("torch", label + "_stream.pkl", written)


def onnx_files():
    arrays = {"f": values(2, 3), "h": values(4, dtype="<f2"), "i": values(5, dtype="<i8"), "s": values()}
    raw = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    make = onnx.helper.make_tensor
    fields = [
        make("f", onnx.TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0]),
        make("d", onnx.TensorProto.DOUBLE, [2], [1.0, 2.0]),
        make("h", onnx.TensorProto.FLOAT16, [2], [1.0, 2.0]),
        make("i", onnx.TensorProto.INT32, [3], [1, -2, 300]),
        make("b", onnx.TensorProto.BOOL, [2], [True, False]),
        make("l", onnx.TensorProto.INT64, [2], [-1, 2**40]),
        make("u", onnx.TensorProto.UINT64, [2], [1, 2**63]),
        make("t", onnx.TensorProto.STRING, [1], [b"x"]),
        make("e", onnx.TensorProto.FLOAT, [0, 3], []),
        make("i4", onnx.TensorProto.INT4, [2], [1, 2]),
    ]
    external = make("w", onnx.TensorProto.FLOAT, [2], [1.0, 2.0], raw=False)
    external.ClearField("float_data")
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "64"), ("length", "8")):
        external.external_data.add(key=key, value=value)
    constant = onnx.helper.make_node("Constant", [], ["c"], value=make("k", onnx.TensorProto.FLOAT, [1, 1], [1.0]))
    body = onnx.helper.make_graph([constant], "body", [], [], raw[:1])
    inner = onnx.helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)
    for name, nodes, tensors in (
        ("raw", [], raw), ("fields", [], fields), ("external", [], [external]), ("graphs", [constant, inner], raw[1:2]),
    ):  # fmt: skip
        graph = onnx.helper.make_graph(nodes, "g", [], [], tensors)
        model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
        put("onnx", name + ".onnx", model.SerializeToString(deterministic=True))


def graph_file(name, nodes, tensors=(), shape=(1, 2, 4, 4), opset=13, imports=(), functions=(), metadata=(),
               **options):
    """x to y, with the node lists as (operator, inputs, outputs, attributes)."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    made = []
    for op, inputs, outputs, *attributes in nodes:
        domain, _, op = op.rpartition("::")
        inputs = inputs.split(" ") if inputs else []
        made.append(helper.make_node(op, inputs, outputs.split(), domain=domain, **dict(*attributes)))
    info = [helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("y", kind, None)]
    protos = onnx.TensorProto
    initializers = [t if isinstance(t, protos) else onnx.numpy_helper.from_array(np.asarray(t), n) for n, t in tensors]
    graph = helper.make_graph(made, "g", *info, initializers, **options)
    opsets = [helper.make_opsetid(*entry) for entry in (("", opset), *imports)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets, functions=functions)
    onnx.helper.set_model_props(model, dict(metadata))
    put("graph", name + ".onnx", model.SerializeToString(deterministic=True))


def graphs():
    qonnx = ("qonnx.custom_op.general", 1)
    quant = {"signed": 1, "narrow": 1, "rounding_mode": "ROUND"}
    q = "qonnx.custom_op.general::"
    numbers = [("s", values(1) * 0 + 0.5), ("z", values() + 3), ("n", values() + 7)]
    norm = [(name, np.abs(values(2)) + 1) for name in ("g", "b", "m", "v")]
    weight = [("w", values(2, 2, 3, 3)), ("wb", values(2))]
    target = [("t", np.array([0, -1]))]
    graph_file("cnn", [
        ("Identity", "x", "i"), ("Conv", "i w wb", "c", {"pads": [1] * 4}), ("BatchNormalization", "c g b m v", "n"),
        ("Relu", "n", "r"), ("MaxPool", "r", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Flatten", "p", "f"),
        ("Gemm", "f gw wb", "y", {"transB": 1, "alpha": 0.5}),
    ], [*weight, *norm, ("gw", values(2, 8))])  # fmt: skip
    graph_file("quantized", [
        (q + "Quant", "x s z n", "xq", quant), (q + "Quant", "w s z n", "wq", quant), ("Transpose", "wq", "wt", {"perm": [1, 0]}),
        ("MatMul", "xq wt", "m"), ("Add", "m wb", "a"), (q + "BipolarQuant", "a s", "y"),
    ], [("w", values(3, 4)), ("wb", values(3)), *numbers], (2, 4), imports=[qonnx])  # fmt: skip
    claim = {"method": "a2q_plus", "bits": 8, "input": [-4, 3], "tile": 2, "bias": "after", "rounding": "toward_zero",
             "constrained": True, "worst": [[[9, -9], [21, -28]], [[6, -8], [9, -12]], [[8, -6], [12, -9]]]}  # fmt: skip
    graph_file("certified", [
        (q + "Quant", "x s z n", "xq", quant), (q + "Quant", "w s z n", "wq", quant),
        ("ConvTranspose", "xq wq wb", "y", {"name": "up", "strides": [2], "group": 1}),
    ], [("w", values(2, 3, 3)), ("wb", values(3)), *numbers], (1, 2, 5), imports=[qonnx],
        metadata={"crumb.accumulator": json.dumps({"up": claim, "gone": claim})})  # fmt: skip
    graph_file("old_domain", [("onnx.brevitas::Quant", "x s z n", "y", quant)], numbers)
    graph_file("thresholds", [(q + "MultiThreshold", "x t", "a", {"out_dtype": "INT4"}), (q + "Trunc", "a s z n n", "y")],
               [("t", values(2, 3)), *numbers], imports=[qonnx])  # fmt: skip
    graph_file("float_quant", [(q + "FloatQuant", "x s n n z n", "y", {"saturation": 1})], numbers, imports=[qonnx])
    graph_file("qcdq", [
        ("QuantizeLinear", "x s o", "a"), ("Clip", "a l h", "b"), ("DequantizeLinear", "b s o", "y"),
    ], [("s", values() + 4), ("o", np.zeros((), np.int8)), ("l", np.int8(-7) + np.zeros((), np.int8)),
        ("h", np.ones((), np.int8))])  # fmt: skip
    runtime, sizes = ("com.microsoft", 1), {"K": 4, "N": 4, "bits": 4, "block_size": 16}
    codes = [("c", values(4, 1, 8, dtype="u1")), ("z", values(4, 1, dtype="u1")), ("r", values(3, 8, dtype="u1"))]
    blocks = [("s", values(4, 1) + 1), ("o", values(4)), ("f", values(4, 1)), ("i", np.array([1, -1])), ("t", values(3, 1) + 1)]
    graph_file("block_codes", [
        ("com.microsoft::MatMulNBits", "x c s z", "a", sizes), ("com.microsoft::MatMulNBits", "a c s f  o", "b", sizes),
        ("com.microsoft::GatherBlockQuantized", "r i t", "g", {"bits": 4, "block_size": 16}), ("Relu", "b", "y"),
    ], [*codes, *blocks], imports=[runtime])  # fmt: skip
    heads = {"num_heads": 2, "unidirectional": 1}
    graph_file("fused_attention", [
        ("com.microsoft::Attention", "x w wb ml", "a", heads), ("com.microsoft::MultiHeadAttention", "a a a wb ml", "b", heads),
        ("com.microsoft::GroupQueryAttention", "b b b   ml tl", "y", {"num_heads": 2, "kv_num_heads": 1}),
    ], [("w", values(4, 12)), ("wb", values(12)), ("ml", np.array([2], np.int32)), ("tl", np.array(3, np.int32))],
        (1, 3, 4), imports=[runtime])  # fmt: skip
    channels_last = ("qonnx.custom_op.channels_last", 13)
    c = channels_last[0] + "::"
    graph_file("channels_last", [
        (c + "Conv", "x w", "a", {"kernel_shape": [3, 3]}), (c + "MaxPool", "a", "y", {"kernel_shape": [2, 2]}),
    ], [("w", values(2, 3, 3, 2))], (1, 4, 4, 2), imports=[channels_last])  # fmt: skip
    graph_file("residual", [
        ("Conv", "x w wb", "c", {"auto_pad": "SAME_UPPER"}), ("Add", "c x", "a"), ("Concat", "a x", "k", {"axis": 1}),
        ("GlobalAveragePool", "k", "p"), ("Reshape", "p t", "f"), ("Softmax", "f", "y", {"axis": 1}),
    ], [*weight, *target])  # fmt: skip
    graph_file("long_vector", [("Add", "x x", "a"), ("Concat", "a a", "y", {"axis": 0})], shape=[1 << 51])
    graph_file("long_products", [("Cast", "x", "q", {"to": 2}), ("Cast", "q", "f", {"to": 1}), ("Transpose", "f", "t"),
                                 ("MatMul", "f t", "y")], shape=[4, 1 << 32])  # fmt: skip
    graph_file("shapes", [
        ("Shape", "x", "a"), ("Gather", "a i", "b"), ("Unsqueeze", "b ax", "c"), ("Concat", "c m", "d", {"axis": 0}),
        ("Reshape", "x d", "e"), ("Split", "e", "f h", {"axis": 1}), ("Sub", "f h", "y"),
    ], [("i", np.array(0)), ("ax", np.array([0])), ("m", np.array([-1]))])  # fmt: skip
    graph_file("old", [
        ("Unsqueeze", "x", "a", {"axes": [0]}), ("Squeeze", "a", "b", {"axes": [0]}), ("Clip", "b", "c", {"min": 0.0}),
        ("Pad", "c", "d", {"pads": [0, 0, 1, 1] * 2}), ("Upsample", "d u", "e", {"mode": "nearest"}),
        ("Slice", "e", "f", {"starts": [0], "ends": [2], "axes": [2]}), ("Dropout", "f", "g", {"ratio": 0.5}),
        ("ReduceMean", "g", "h", {"axes": [2, 3]}), ("TopK", "h", "y k", {"k": 1}),
    ], [("u", np.array([1, 1, 2, 2], np.float32))], opset=9)  # fmt: skip
    graph_file("new", [
        ("LayerNormalization", "x g", "a", {"axis": -1}), ("Gelu", "a", "b", {"approximate": "tanh"}),
        ("ReduceMean", "b t", "c", {"keepdims": 0}), ("Resize", "c   u", "d"), ("Split", "d", "e f", {"num_outputs": 2}),
        ("Swish", "e", "y"),
    ], [("g", values(4)), ("t", np.array([3])), ("u", np.array([1, 1, 2], np.float32))], opset=24)  # fmt: skip
    graph_file("constants", [
        ("Constant", "", "a", {"value_floats": [1.0, 2.0]}), ("Constant", "", "b", {"value_int": 3}),
        ("Cast", "b", "c", {"to": 1}), ("Mul", "a c", "d"), ("ConstantOfShape", "t", "e"), ("Add", "x d", "y"),
    ], [("t", np.array([2, 2]))], (2, 2))  # fmt: skip

    body = lambda inputs, outputs, *nodes: onnx.helper.make_graph(  # noqa: E731
        [onnx.helper.make_node(op, i.split(), o.split(), **dict(*rest)) for op, i, o, *rest in nodes], "b",
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in inputs.split()],
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs.split()])  # fmt: skip
    side = lambda op, made: body("", made, (op, "x", made))  # noqa: E731
    inner = body("", "b", ("If", "f", "b", {"then_branch": side("Neg", "c"), "else_branch": side("Abs", "c")}))
    decides = ("Greater", "m z", "f"), ("ReduceMean", "x", "m", {"keepdims": 0})
    graph_file("if", [decides[1], decides[0],
                      ("If", "f", "y", {"then_branch": inner, "else_branch": side("Relu", "b")})],
               [("z", np.float32(0))])  # fmt: skip
    graph_file("if_decided", [("If", "t", "y", {"then_branch": inner, "else_branch": side("Relu", "b")})],
               [("t", np.array(True)), ("f", np.array(False))])  # fmt: skip
    again = body("i c s", "d t u", ("Identity", "c", "d"), ("Add", "s x", "t"), ("Neg", "s", "u"))
    graph_file("loop", [("Loop", "n t x", "y u", {"body": again})], [("n", np.int64(3)), ("t", np.array(True))])
    until = body("i c s", "d t", ("Add", "s x", "t"), ("Less", "i n", "d"))
    graph_file("loop_until", [("Loop", " t x", "y", {"body": until})], [("n", np.int64(2)), ("t", np.array(True))])
    row = body("s r", "t u", ("Add", "s r", "t"), ("Abs", "t", "u"))
    graph_file("scan", [("Scan", "z x", "s y", {"body": row, "num_scan_inputs": 1, "scan_input_directions": [1]})],
               [("z", np.float32(0))])  # fmt: skip

    # Broken in one way each.
    graph_file("if_cycle", [("If", "t", "y", {"then_branch": body("", "b", ("Neg", "y", "b")), "else_branch": inner})],
               [("t", np.array(True)), ("f", np.array(False))])  # fmt: skip
    graph_file("if_missing", [("If", "t", "y", {"then_branch": inner, "else_branch": body("", "q", ("Neg", "x", "b"))})],
               [("t", np.array(True)), ("f", np.array(False))])  # fmt: skip
    graph_file("cycle", [("Add", "x b", "a"), ("Neg", "a", "b"), ("Neg", "b", "y")])
    graph_file("self", [("Neg", "y", "y")])
    graph_file("missing", [("Add", "x nobody", "y")])
    graph_file("twice", [("Neg", "x", "y"), ("Abs", "x", "y")])
    graph_file("same_names", [("Add", "x w", "y")], [("w", values(1)), ("w", values(2))])
    graph_file("overflow", [("Add", "x w", "y")], [("w", onnx.TensorProto(name="w", data_type=1, dims=[2**40] * 3))])
    graph_file("huge", [("Expand", "x w", "y")], [("w", np.array([2**40, 2**40]))], (1, 1))
    graph_file("wide", [("Transpose", "w", "t", {"perm": [1, 0]}), ("Add", "x t", "y")], [("w", values(0, 3))], (0, 0))
    for i, place in enumerate(["weights.bin", "sub/weights.bin", "../outside.bin", "/etc/hostname", "link.bin",
                               "up/outside.bin", "sub/../../outside.bin"]):  # fmt: skip
        w = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", place), ("offset", "8"), ("length", "16")):
            w.external_data.add(key=key, value=value)
        graph_file(f"external{i}", [("Add", "x w", "y")], [("w", w)])

    def function(name, *calls):
        nodes = [onnx.helper.make_node(call, [i], [o], domain="f" if call[0] == "F" else "") for call, i, o in calls]
        return onnx.helper.make_function("f", name, ["a"], ["b"], nodes, [onnx.helper.make_opsetid("", 13),
                                                                        onnx.helper.make_opsetid("f", 1)])  # fmt: skip

    def call(file, *functions):
        graph_file(file, [("f::F0", "x", "y")], imports=[("f", 1)], functions=functions)

    call("function", function("F0", ("Neg", "a", "c"), ("F1", "c", "b")), function("F1", ("Abs", "a", "b")))
    call("unmade_output", function("F0", ("Neg", "a", "c")))
    call("unmade_input", function("F0", ("Neg", "c", "b")))
    call("recursion", function("F0", ("F0", "a", "b")))
    call("recursions", function("F0", ("F1", "a", "b")), function("F1", ("F0", "a", "b")))
    doubling = [function(f"F{i}", (f"F{i + 1}", "a", "c"), (f"F{i + 1}", "c", "b")) for i in range(30)]
    call("doubling", *doubling, function("F30", ("Neg", "a", "b")))
    put("graph", "nonsense.onnx", b"\x08\x08nonsense")


def recipe():
    put("recipe", "minimal.yaml", "version: 1\nweights: int4:group=128\n")
    put("recipe", "whole.yaml", """version: 1
weights: int4:group=128
embeddings: keep
zstd: 19
rules:
  - {match: {name: ["stem", "head*"]}, weights: int8:channel}
  - {match: {name: "re:.*\\.(query|key)\\.[a-z_]{2,5}", role: weight}, weights: int3:group=64}
  - match:
      name: 'l[mn]_h?ad'
      role: [weight, embedding]
    skip: true
    optional: true
""")
    put("recipe", "comments.yaml", "# a\nversion: 1 # b\nweights: keep\nzstd: off\nrules: []\n")
    put("recipe", "stages.yaml", "version: 1\nweights: int4\nstages:\n  - block_wise: {passes: 2, rate: 1e-3}\n  - end_to_end:steps=40:scale_rate=1e-4:scales_alone=on:learn_adapters=on\n  - low_rank: {rank: 4}\n  - outliers: {share: 0.01}\n  - gptq: {order: off, sweeps: 2, accumulator: 16}\n  - gpfq: {damp: 0, magr: 0.05}\n  - qronos:damp=0.001:tile=8\n  - rotate: {online: 32, heads: off}\n  - awq: {steps: 5, weights: on}\n  - clip\n  - split: {share: 0.1, even: on}\n  - batch_norm:own=on\n  - adaround:steps=9:rate=0.1\n  - best: {trials: 2}\n  - fisher: {damp: 0.5, draws: 2}\n")
    put("recipe", "refused.yaml", "version: 1\nweights: &a !!str int4\nrules: *a\n---\n{a: 1, a: 2}\n")
    put("recipe", "quoted.yaml", 'version: "1"\n"weights": |\n  int4\nembeddings: >-\n  int8\n')
    for i, pattern in enumerate(["re:(a|b)*c+?$", "re:[^\\d_x-z]{1,3}\\.", "encoder.*.weight", "a[!b]\\*?", "re:(?:x{2,})?^"]):
        put("recipe", f"pattern{i}", pattern)


def spec():
    lines = (REPO / "tests/quant/quant_spec_test.cpp").read_text().split('"')[1::2]
    specs = sorted({line for line in lines if ":" in line and " " not in line and len(line) < 80})
    for i, line in enumerate(specs[:40] + ["mxfp4:search=mse:pad", "nvfp4", "W4A16", "palette4:group=64", "e3m4"]):
        put("spec", f"{i:02}", line)


def tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "wor", "##ld", "##s", "é", "中", "!", "a", "##a"]
    ids = {word: i for i, word in enumerate(words)}
    added = [
        {"id": 4, "content": "[MASK]", "lstrip": True, "special": True},
        {"id": 90, "content": "<X y>", "single_word": True, "rstrip": True, "normalized": True},
    ]
    whole = {
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids},
    }  # fmt: skip
    config = {"do_lower_case": False, "model_max_length": 512, "tokenizer_class": "BertTokenizer",
              "added_tokens_decoder": {"91": {"content": "Q"}}, "cls_token": "[CLS]",
              "mask_token": {"content": "[MASK]"}}  # fmt: skip
    text = "Hello worlds! [MASK] <x Y> Q a\u0301aa 中é \U0001f600\tx"
    vocab = "\n".join(words) + "\r\n"

    def seed(name, *parts):
        put("tokenizer", name, b"\x1e".join(p.encode() if isinstance(p, str) else p for p in parts))

    def dump(value):
        return json.dumps(value, ensure_ascii=False)

    seed("json", dump(whole), "", "", "", "", "", text)
    letters = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "x": 3, "##x": 4}
    model = {"type": "WordPiece", "vocab": letters, "max_input_chars_per_word": 2**40}
    seed("long_word", dump({"model": model}), "", "", "", "", "", "x" * 900)
    seed("vocab", "", vocab, "", "", "", "", text)
    seed("config", "", vocab, dump(config), dump({"unk_token": "[UNK]"}), dump({"Q2": 92}),
         dump({"max_seq_length": 8, "do_lower_case": True}), text)  # fmt: skip
    seed("all", dump(whole), vocab, dump(config | {"model_max_length": 1e30}), "{}", "{}", "{}", text)
    seed("bytes", "", vocab, "", "", "", "", b"\xff\xf0\x9f\x98 \xed\xa0\x80 \xc3 a\0b \xe2\x80\x8d\xef\xbf\xbd")


def tokenizer_json():
    """Tokenizers of decoders: one for each model, with the steps that models of its kind have."""

    def seed(name, whole, config, text):
        parts = [json.dumps(whole, ensure_ascii=False), json.dumps(config) if config else "", text]
        put("tokenizer_json", name, "\x1e".join(parts))

    text = "The fox's  12345 <s> é 中\U0001f600\n\nx=1;"
    tokens = [*"aehotTfx12345'sĠĊéä¸Ń;=", "th", "he", "the", "Ġf", "ox", "Ġfox", "12"]
    merges = [["t", "h"], ["th", "e"], ["h", "e"], ["Ġ", "f"], ["o", "x"], ["Ġf", "ox"], ["1", "2"]]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}
    added = [{"id": 40, "content": "<s>", "special": True}, {"id": 41, "content": "=1", "lstrip": True, "normalized": True}]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    seed("gpt2", {"model": model, "pre_tokenizer": level, "decoder": level, "added_tokens": added}, None, text)
    for name, config in {"vocab_gpt2": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True},
                         "vocab_roberta": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True},
                         "vocab_qwen": {"model_type": "qwen2", "added_tokens_decoder": {"40": {"content": "<s>"}}}}.items():  # fmt: skip
        vocab = json.dumps(model["vocab"], ensure_ascii=False)
        lines = "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in merges)
        put("tokenizer_json", name, "\x1e".join(["", vocab, lines, json.dumps(config), text]))
    regex = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [40]}}}  # fmt: skip
    seed("llama3", {
        "model": {**model, "ignore_merges": True}, "normalizer": {"type": "NFC"}, "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {**level, "use_regex": False}]},
        "post_processor": {"type": "Sequence", "processors": [level, template]}, "decoder": level,
    }, {"bos_token": {"content": "<s>"}, "add_bos_token": True, "eos_token": "=1", "add_eos_token": False}, text)  # fmt: skip
    pieces = ["<unk>", *"▁thefox", "▁t", "he", "▁the", "<0xE4>", "<0xB8>", "<0xAD>", "<0x0A>"]
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    seed("llama2", {
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(pieces)}, "merges": ["▁ t", "h e", "▁t he"],
                  "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True},
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [
            spaces, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    }, None, "the 中 thé\n")  # fmt: skip
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    seed("unigram", {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[piece, -0.5 * i] for i, piece in enumerate(pieces)]},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip"}]},
        "pre_tokenizer": meta, "decoder": meta, "added_tokens": added,
    }, None, text)  # fmt: skip
    words = {"type": "BPE", "vocab": {"a": 0, "b</w>": 1, "ab</w>": 2, "?": 3}, "merges": ["a b</w>"], "unk_token": "?",
             "end_of_word_suffix": "</w>"}  # fmt: skip
    steps = [{"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Whitespace"}]
    seed("words", {
        "model": words, "normalizer": {"type": "BertNormalizer"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "post_processor": {"type": "RobertaProcessing", "cls": ["a", 0], "sep": ["?", 3]},
    }, None, "Ab a1b, ab!")  # fmt: skip
    # A trie that knows "T" alone, which becomes "t".
    units = [0] * 512
    units[0] = 256 << 10  # to 256 ^ "T"
    units[256 ^ 0x54] = (0x54 << 0) | 0x100 | ((256 ^ 0x54 ^ 300) << 10)
    units[300] = 0x80000000
    table = struct.pack("<I512I", 2048, *units) + b"t\0"
    seed("wordpiece", {
        "model": {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(["[UNK]", "the", "fox", "##s", "'", "x", "##=", "12"])}},
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    }, None, text)  # fmt: skip


def sentencepiece():
    """Models of both kinds, with small tables of characters."""
    import sentencepiece as spm

    def seed(name, text, rules=None, **settings):
        made = io.BytesIO()
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
            if rules:
                table.write("".join(f"{old}\t{new}\n" for old, new in rules))
                table.flush()
                settings["normalization_rule_tsv"] = table.name
            else:
                settings["normalization_rule_name"] = "identity"
            lines = ["the quick fox", "fox's  the\u00e9 12 345", "x=1; the fox"] * 5
            spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=made, minloglevel=2, num_threads=1, **settings)
        put("sentencepiece", name, made.getvalue() + b"\x1e" + text.encode())

    text = "The fox's  12345 <s> \u00e9 \u4e2d\U0001f600\n\nx=1;"
    seed("unigram", text, model_type="unigram", vocab_size=40, hard_vocab_limit=False)
    seed("bpe", text, model_type="bpe", vocab_size=60, user_defined_symbols=["x=", "<s2>"], remove_extra_whitespaces=False)
    seed("bytes", text, model_type="bpe", vocab_size=300, byte_fallback=True, add_dummy_prefix=False)
    seed("rules", text + " \ufb01", [("FB01", "66 69"), ("E9", "65"), ("54", "74"), ("31 32", "")], model_type="unigram",
         vocab_size=40, hard_vocab_limit=False)  # fmt: skip


def chat_template():
    """Drawn templates, short ones, and one like a model's, with conversations."""

    def seed(name, template, messages):
        put("chat_template", name, template + "\x1e" + json.dumps(messages, ensure_ascii=False, separators=(",", ":")))

    for number in range(150):
        case = chat_programs.case(number)
        if len(case["template"].encode()) < 1000:
            seed(f"{number:03}", case["template"], case["messages"])
    calls = [{"function": {"name": "f", "arguments": {"a": 1.5, "b": [None, True]}}}]
    seed("tools", """{%- if messages[0].role == 'system' %}{{- '<s>' + messages[0].content|trim }}{% endif -%}
{% for message in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}
  {%- if message.tool_calls is defined %}{% for c in message.tool_calls %}{{ c.function|tojson(indent=2) }}{% endfor %}
  {%- elif '</t>' in message.content %}{{ message.content.split('</t>')[-1].lstrip('\\n') ~ i }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ strftime_now('%Y') }}{% endif %}""",
         [{"role": "system", "content": " s "}, {"role": "user", "content": "a</t>\nb"}, {"role": "assistant", "tool_calls": calls}])  # fmt: skip


def runtime():
    """Small networks that the runtime computes with integers."""
    for number in range(40):
        model, x, values, grid = test_integers.draw_network(number)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
        bytes = model.SerializeToString()
        if grid.qcdq and len(bytes) < 2500:
            put("runtime", f"{number}.onnx", bytes)


def attention():
    """Attention and its kin, with a past; and sessions that were saved, of the network of session_fuzz.cpp."""
    helper, kinds = onnx.helper, onnx.TensorProto

    def network(name, nodes, inputs, outputs):
        info = [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()]
        graph = helper.make_graph(nodes, "g", info, [helper.make_empty_tensor_value_info(n) for n in outputs.split()])
        model = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 24)])
        put("runtime", name + ".onnx", model.SerializeToString(deterministic=True))

    f, ints = kinds.FLOAT, kinds.INT64
    past = {name: (f, ["b", 1, "p", 3]) for name in ("past_key", "past_value")}
    packed = {"q": (f, ["b", 2, 6]), "k": (f, ["b", 2, 3]), "v": (f, ["b", 2, 3]), "m": (f, [2, "t"]), **past}
    network("attention_packed", [
        helper.make_node("Attention", [*packed], ["y", "present_key", "present_value"], q_num_heads=2, kv_num_heads=1, softcap=2.0),
    ], packed, "y present_key present_value")  # fmt: skip
    heads = {"q": (f, ["b", 2, 3, 2]), "k": (f, ["b", 1, 4, 2]), "v": (f, ["b", 1, 4, 5]), "m": (kinds.BOOL, ["b", 1, 1, 3]),
             "n": (ints, ["b"])}  # fmt: skip
    network("attention_heads", [
        helper.make_node("Attention", ["q", "k", "v", "m", "", "", "n"], ["y", "", "", "s"], is_causal=1, qk_matmul_output_mode=3),
    ], heads, "y s")  # fmt: skip
    turned = {"x": (f, ["b", 2, 3, 6]), "c": (f, [16, 2]), "s": (f, [16, 2]), "i": (kinds.UINT8, ["b", 3])}
    ids = helper.make_node("Cast", ["i"], ["ids"], to=ints)
    zeros = helper.make_node("Sub", ["ids", "ids"], ["zero"])
    turn = helper.make_node("RotaryEmbedding", ["x", "c", "s", "zero"], ["y"], rotary_embedding_dim=4, interleaved=1)
    network("rotary", [ids, zeros, turn], turned, "y")
    sums = [helper.make_node("Einsum", ["x", "w"], ["y"], equation="...ij,kj->...ki"),
            helper.make_node("Constant", [], ["axis"], value_int=-1),
            helper.make_node("CumSum", ["y", "axis"], ["z"], reverse=1), helper.make_node("LpNormalization", ["z"], ["o"], p=1)]  # fmt: skip
    network("einsum", sums, {"x": (f, ["b", 2, 3]), "w": (f, [4, 3])}, "o")
    for batch, places in ((1, 0), (1, 1), (2, 3), (1, 70)):
        made = b"crumb-kv" + struct.pack("<IIQ", 1, 3, places)
        for name, depth in (("past_key", 4), ("past_value", 3), ("past_x", 2)):
            shape = (batch, 1, places, depth) if places else ()
            elements = values(*shape).tobytes() if places else b""
            made += struct.pack("<I", len(name)) + name.encode() + struct.pack(f"<II{len(shape)}q", 1, len(shape), *shape)
            made += struct.pack("<Q", len(elements)) + elements
        put("session", f"{batch}x{places}.bin", made + struct.pack("<I", zlib.crc32(made)))


def gguf_file(architecture, entries, tensors):
    """entries are the writer's own calls by name (several arguments as a tuple), tensors {name: array, or (type, rows of
    bytes)}."""
    with tempfile.TemporaryDirectory() as folder:
        writer = gguf.GGUFWriter(Path(folder) / "m.gguf", architecture)
        for name, value in entries.items():
            getattr(writer, f"add_{name}")(*(value if isinstance(value, tuple) else (value,)))
        for name, value in tensors.items():
            if isinstance(value, tuple):
                writer.add_tensor(name, value[1], raw_dtype=value[0])
            else:
                writer.add_tensor(name, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return (Path(folder) / "m.gguf").read_bytes()


def gguf_files():
    """A file of every type of blocks, a model of every architecture, both kinds of tokenizer."""
    types = gguf.GGMLQuantizationType
    for kind in types:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        if elements > 1 and kind not in (types.Q8_1, types.Q8_K) and not kind.name.startswith(("IQ1", "IQ2", "IQ3")):
            blocks = (np.arange(2 * size, dtype=np.uint32) * 37 % 251).astype(np.uint8).reshape(2, size)
            put("gguf", kind.name, gguf_file("odd", {}, {"t": (kind, blocks)}))
    plain = ("<f4", "<f2", "<f8", "|i1", "<i2", "<i4", "<i8")
    put("gguf", "plain", gguf_file("odd", {}, {kind[1:]: values(2, 3, dtype=kind) for kind in plain}))
    sizes = {"context_length": 8, "embedding_length": 4, "block_count": 1, "feed_forward_length": 4, "head_count": 2,
             "head_count_kv": 1, "key_length": 2, "layer_norm_rms_eps": 1e-5, "rope_freq_base": 1e4}  # fmt: skip
    layer = {"token_embd.weight": values(3, 4), "output_norm.weight": values(4), "blk.0.attn_norm.weight": values(4),
             "blk.0.attn_q.weight": values(4, 4), "blk.0.attn_k.weight": values(2, 4),
             "blk.0.attn_q.bias": values(4)}  # fmt: skip
    for name in ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "smollm3"):
        tensors = {key: value for key, value in layer.items() if name not in ("olmo2", "phi3") or "blk" not in key}
        put("gguf", name, gguf_file(name, sizes, tensors))
    half = {"output.weight": values(3, 4, dtype="<f2"), "blk.0.post_ffw_norm.weight": values(4, dtype="<f2")}
    put("gguf", "gemma2_half", gguf_file("gemma2", sizes, layer | half))
    wide = {"token_embd.weight": values(3, 4), "rope_freqs.weight": np.array([1, 2.5, 8, 8], "<f4")}
    put("gguf", "rope", gguf_file("llama", sizes | {"key_length": 8, "rope_scaling_orig_ctx_len": 16}, wide))
    longer = {"token_embd.weight": values(3, 4), "rope_factors_long.weight": np.array([1.5, 4], "<f4"),
              "rope_factors_short.weight": np.array([1, 1.25], "<f4")}  # fmt: skip
    scaled = {"key_length": 4, "rope_scaling_orig_ctx_len": 4, "rope_scaling_attn_factors": 1.25}
    put("gguf", "longrope", gguf_file("phi3", sizes | scaled | {"rope_scaling_type": gguf.RopeScalingType.LONGROPE}, longer))
    scaled |= {"rope_scaling_type": gguf.RopeScalingType.YARN, "rope_scaling_factor": 2.0}
    put("gguf", "yarn", gguf_file("qwen2", sizes | scaled, {"token_embd.weight": values(3, 4)}))
    byte_level = {"tokenizer_model": "gpt2", "tokenizer_pre": "smollm", "token_list": ["<s>", "a", "b", "ab"],
                  "token_types": [3, 1, 1, 1], "token_merges": ["a b"], "bos_token_id": 0, "add_bos_token": True,
                  "chat_template": "{{ x }}"}  # fmt: skip
    put("gguf", "byte_level", gguf_file("llama", sizes | byte_level, layer))
    pieces = {"tokenizer_model": "llama", "token_list": ["<unk>", "<0x41>", "\u2581", "a", "\u2581a"],
              "token_scores": [0.0, 0.0, -1.0, -2.0, -0.5], "token_types": [2, 6, 1, 1, 1], "unk_token_id": 0,
              "add_space_prefix": True}  # fmt: skip
    put("gguf", "pieces", gguf_file("llama", sizes | pieces, layer))
    key = b"llama.feed_forward_length"
    bools = struct.pack("<IIQ", 9, 7, 3) + b"q.w"  # an array of bools, none of which is one
    put("gguf", "no_bools", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key + bools + bytes(32))
    put("gguf", "part", gguf_file("odd", {"uint16": ("split.no", 0), "uint32": ("split.count", 2)}, {"t": values(2)}))
    put("gguf", "nested", gguf_file("odd", {"tags": ["x", "yz"], "custom_alignment": 64}, {"t": values(2)}))


def quantized():
    """A configuration, a list of tensors, and the bytes of small numbers: parted as quantized_fuzz.cpp has it."""

    def seed(name, config, tensors, data=b""):
        listed = [[tensor, dtype, shape] for tensor, (dtype, *shape) in tensors.items()]
        parts = (json.dumps(config, separators=(",", ":")).encode(), json.dumps(listed, separators=(",", ":")).encode(), data)
        put("quantized", name, b"\x1e".join(parts))

    def ct(form, **weights):
        groups = {"g": {"targets": ["Linear"], "weights": weights}}
        return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups}

    shape = (4).to_bytes(8, "little") + (40).to_bytes(8, "little")
    packed = {"a.weight_shape": ("I64", 2), "a.weight_packed": ("I32", 4, 5), "a.weight_scale": ("F16", 4, 5),
              "a.weight_zero_point": ("I32", 1, 5), "n": ("F32", 3)}  # fmt: skip
    seed("packed", ct("pack-quantized", num_bits=4, strategy="group", group_size=8, symmetric=False), packed, shape)
    three = {"a.weight_shape": ("I64", 2), "a.weight_packed": ("I32", 4, 4), "a.weight_scale": ("F32", 1),
             "a.weight_g_idx": ("I32", 40)}  # fmt: skip
    seed("three", ct("pack-quantized", num_bits=3, strategy="tensor"), three, shape + bytes(200))
    block = {"a.weight": ("I8", 5, 7), "a.weight_scale": ("BF16", 2, 3), "a.input_scale": ("F32", 1)}
    seed("block", ct("int-quantized", num_bits=8, strategy="block", block_structure=[3, 3]), block)
    seed("huge_block", ct("int-quantized", num_bits=8, strategy="block", block_structure=[3, 2**64 - 1]),
         block | {"a.weight_scale": ("BF16", 2, 0)})  # fmt: skip
    seed("fp8", ct("float-quantized", num_bits=8, type="float", strategy="channel"),
         {"a.weight": ("F8_E4M3", 3, 5), "a.weight_scale": ("F32", 3, 1)})  # fmt: skip
    seed("nvfp4", ct("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
         {"a.weight_packed": ("U8", 3, 16), "a.weight_scale": ("F8_E4M3", 3, 2), "a.weight_global_scale": ("F32", 1)})  # fmt: skip
    seed("mxfp6", ct("mxfp6-pack-quantized", num_bits=6, type="float", strategy="group", group_size=32),
         {"a.weight_packed": ("U8", 3, 24), "a.weight_scale": ("U8", 3, 1)})  # fmt: skip
    gptq = {"a.qweight": ("I32", 4, 32), "a.qzeros": ("I32", 2, 4), "a.scales": ("F16", 2, 32), "a.g_idx": ("I32", 32)}
    seed("gptq", {"quant_method": "gptq", "bits": 4, "group_size": 16}, gptq, b"\1" * 640 + bytes(256))
    del gptq["a.g_idx"]
    seed("gptq_v2", {"quant_method": "gptq", "bits": 4, "group_size": 16, "checkpoint_format": "gptq_v2"}, gptq)
    seed("awq", {"quant_method": "awq", "bits": 4, "group_size": 16},
         {"a.qweight": ("I32", 32, 2), "a.qzeros": ("I32", 2, 2), "a.scales": ("F16", 2, 16)})  # fmt: skip
    seed("auto_round", {"quant_method": "auto-round", "bits": 5, "group_size": 16, "packing_format": "auto_round:auto_gptq"},
         {"a.qweight": ("I32", 5, 32), "a.qzeros": ("I32", 2, 5), "a.scales": ("F16", 2, 32)})  # fmt: skip
    bitsandbytes(seed)


def bitsandbytes(seed):
    nf4 = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0, 0.0795803, 0.1609302,
        0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]  # fmt: skip
    for name, nested in (("nf4", {}), ("nf4_nested", {"nested_blocksize": 256, "nested_offset": 0.5})):
        said = {"quant_type": "nf4", "blocksize": 32, "dtype": "bfloat16", "shape": [3, 33], **nested}
        state = json.dumps(said, separators=(",", ":")).encode()
        tensors = {"w.quant_state.bitsandbytes__nf4": ("U8", len(state)), "w.quant_map": ("F32", 16), "w": ("U8", 50, 1),
            "w.absmax": ("U8" if nested else "F32", 4)}  # fmt: skip
        if nested:
            tensors |= {"w.nested_absmax": ("F32", 1), "w.nested_quant_map": ("F32", 256)}
        seed(name, {"quant_method": "bitsandbytes"}, tensors, state + struct.pack("<16f", *nf4))
    seed("llm_int8", {"quant_method": "bitsandbytes"},
         {"a.weight_format": ("U8",), "a.weight": ("I8", 3, 5), "a.SCB": ("F32", 3)}, bytes(1))  # fmt: skip


def adapters():
    """A GGUF file of llama.cpp's, and the two files of PEFT's folder, parted as adapter_fuzz.cpp has it."""
    said = {"type": "adapter", "string": ("adapter.type", "lora"), "float32": ("adapter.lora.alpha", 6.0),
            "base_model_name": (0, "base")}  # fmt: skip
    up = {"blk.0.ffn_up.weight.lora_a": values(2, 3), "blk.0.ffn_up.weight.lora_b": values(1, 2)}
    heads = {"blk.0.attn_q.weight.lora_a": values(2, 3, dtype="<f2"), "blk.0.attn_q.weight.lora_b": values(4, 2, dtype="<f2")}
    put("adapter", "gguf", gguf_file("qwen3", said, up))
    put("adapter", "heads", gguf_file("llama", said | {"key_length": 2}, up | heads))

    def seed(name, config, tensors):
        named = {f"base_model.model.{module}.weight": tensor for module, tensor in tensors.items()}
        text = json.dumps({"peft_type": "LORA", **config}, separators=(",", ":")).encode()
        put("adapter", name, text + b"\x1e" + safetensors_file(named))

    pair = {"q.lora_A": f32(2, 3), "q.lora_B": f32(1, 2)}
    seed("peft", {"r": 2, "lora_alpha": 16, "bias": "none", "use_dora": False}, pair)
    seed("patterns", {"r": 3, "use_rslora": True, "rank_pattern": {"^q": 2, "a.*|b": 4}, "alpha_pattern": {"q": 0.5}}, pair)
    seed("default", {"r": 2, "init_lora_weights": "eva"}, {"q.lora_A.default": f32(2, 1), "q.lora_B.default": f32(3, 2)})


def calls():
    """Scripts of calls_fuzz.cpp: any bytes are one."""
    for i in range(8):
        put("calls", f"{i}.bin", random.Random(i).randbytes(120 + 40 * i))


def main():
    binary = Path(sys.argv[1]).resolve()
    finds = {find: (CORPUS / find).read_bytes() for find in FINDS}
    shutil.rmtree(CORPUS)
    for find, content in finds.items():
        put(*find.split("/"), content)
    crumb(binary)
    runtime()
    attention()
    safetensors()
    index()
    npy()
    npz()
    spec()
    tokenizer()
    tokenizer_json()
    sentencepiece()
    chat_template()
    torch_files()
    onnx_files()
    gguf_files()
    quantized()
    adapters()
    graphs()
    recipe()
    calls()


if __name__ == "__main__":
    main()
