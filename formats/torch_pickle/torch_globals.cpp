#include "formats/torch_pickle/torch_globals.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::array<TorchGlobal, 109> kTorchGlobals = {{
    {"_codecs.encode", TorchRole::kPlain, "bytes"},
    {"argparse.Namespace", TorchRole::kObject, "a namespace"},
    {"builtins.bytearray", TorchRole::kPlain, "bytes"},
    {"builtins.bytes", TorchRole::kPlain, "bytes"},
    {"builtins.complex", TorchRole::kPlain, "a complex number"},
    {"builtins.frozenset", TorchRole::kPlain, "a set"},
    {"builtins.range", TorchRole::kPlain, "a range"},
    {"builtins.set", TorchRole::kPlain, "a set"},
    {"builtins.slice", TorchRole::kPlain, "a slice"},
    {"builtins.xrange", TorchRole::kPlain, "a range"},
    {"collections.Counter", TorchRole::kPlain, "a counter"},
    {"collections.OrderedDict", TorchRole::kDictionary, ""},
    {"numpy._core.multiarray.scalar", TorchRole::kPlain, "a NumPy number"},
    {"numpy.core.multiarray.scalar", TorchRole::kPlain, "a NumPy number"},
    {"numpy.dtype", TorchRole::kObject, "a NumPy type"},
    {"pathlib.PosixPath", TorchRole::kPlain, "a path"},
    {"pathlib.PurePosixPath", TorchRole::kPlain, "a path"},
    {"pathlib.PureWindowsPath", TorchRole::kPlain, "a path"},
    {"pathlib.WindowsPath", TorchRole::kPlain, "a path"},
    {"torch.BFloat16Storage", TorchRole::kStorage, "bfloat16", 2, DType::kBF16},
    {"torch.BoolStorage", TorchRole::kStorage, "bool", 1, DType::kBool},
    {"torch.ByteStorage", TorchRole::kStorage, "uint8", 1, DType::kU8},
    {"torch.CharStorage", TorchRole::kStorage, "int8", 1, DType::kI8},
    {"torch.ComplexDoubleStorage", TorchRole::kStorage, "complex128", 16},
    {"torch.ComplexFloatStorage", TorchRole::kStorage, "complex64", 8, DType::kC64},
    {"torch.DoubleStorage", TorchRole::kStorage, "float64", 8, DType::kF64},
    {"torch.FloatStorage", TorchRole::kStorage, "float32", 4, DType::kF32},
    {"torch.HalfStorage", TorchRole::kStorage, "float16", 2, DType::kF16},
    {"torch.IntStorage", TorchRole::kStorage, "int32", 4, DType::kI32},
    {"torch.LongStorage", TorchRole::kStorage, "int64", 8, DType::kI64},
    {"torch.QInt32Storage", TorchRole::kStorage, "qint32", 4, std::nullopt, DType::kI32},
    {"torch.QInt8Storage", TorchRole::kStorage, "qint8", 1, std::nullopt, DType::kI8},
    {"torch.QUInt2x4Storage", TorchRole::kStorage, "quint2x4", 1},
    {"torch.QUInt4x2Storage", TorchRole::kStorage, "quint4x2", 1},
    {"torch.QUInt8Storage", TorchRole::kStorage, "quint8", 1, std::nullopt, DType::kU8},
    {"torch.ShortStorage", TorchRole::kStorage, "int16", 2, DType::kI16},
    {"torch.Size", TorchRole::kPlain, "a torch.Size"},
    {"torch.Tensor", TorchRole::kTensorType, ""},
    {"torch.UntypedStorage", TorchRole::kStorage, "uint8", 1, DType::kU8},
    {"torch._UntypedStorage", TorchRole::kStorage, "uint8", 1, DType::kU8},
    {"torch._tensor._rebuild_from_type_v2", TorchRole::kFromType, ""},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", TorchRole::kOnDevice, ""},
    {"torch._utils._rebuild_meta_tensor_no_storage", TorchRole::kOtherTensor,
     "a meta tensor, which has no data"},
    {"torch._utils._rebuild_nested_tensor", TorchRole::kOtherTensor, "a nested tensor"},
    {"torch._utils._rebuild_parameter", TorchRole::kWrapTensor, ""},
    {"torch._utils._rebuild_parameter_with_state", TorchRole::kWrapTensor, ""},
    {"torch._utils._rebuild_qtensor", TorchRole::kRebuildQTensor, "a quantized tensor"},
    {"torch._utils._rebuild_sparse_tensor", TorchRole::kOtherTensor, "a sparse tensor"},
    {"torch._utils._rebuild_tensor", TorchRole::kRebuildTensor, ""},
    {"torch._utils._rebuild_tensor_v2", TorchRole::kRebuildTensorV2, ""},
    {"torch._utils._rebuild_tensor_v3", TorchRole::kRebuildTensorV3, ""},
    {"torch._utils._rebuild_wrapper_subclass", TorchRole::kOtherTensor, "a tensor subclass without data"},
    {"torch.bfloat16", TorchRole::kDType, "bfloat16", 2, DType::kBF16},
    {"torch.bits16", TorchRole::kDType, "bits16", 2},
    {"torch.bits1x8", TorchRole::kDType, "bits1x8", 1},
    {"torch.bits2x4", TorchRole::kDType, "bits2x4", 1},
    {"torch.bits4x2", TorchRole::kDType, "bits4x2", 1},
    {"torch.bits8", TorchRole::kDType, "bits8", 1},
    {"torch.bool", TorchRole::kDType, "bool", 1, DType::kBool},
    {"torch.complex128", TorchRole::kDType, "complex128", 16},
    {"torch.complex32", TorchRole::kDType, "complex32", 4},
    {"torch.complex64", TorchRole::kDType, "complex64", 8, DType::kC64},
    {"torch.device", TorchRole::kPlain, "a device"},
    {"torch.float16", TorchRole::kDType, "float16", 2, DType::kF16},
    {"torch.float32", TorchRole::kDType, "float32", 4, DType::kF32},
    {"torch.float4_e2m1fn_x2", TorchRole::kDType, "float4_e2m1fn_x2", 1, DType::kF4},
    {"torch.float64", TorchRole::kDType, "float64", 8, DType::kF64},
    {"torch.float8_e4m3fn", TorchRole::kDType, "float8_e4m3fn", 1, DType::kF8E4M3},
    {"torch.float8_e4m3fnuz", TorchRole::kDType, "float8_e4m3fnuz", 1, DType::kF8E4M3Fnuz},
    {"torch.float8_e5m2", TorchRole::kDType, "float8_e5m2", 1, DType::kF8E5M2},
    {"torch.float8_e5m2fnuz", TorchRole::kDType, "float8_e5m2fnuz", 1, DType::kF8E5M2Fnuz},
    {"torch.float8_e8m0fnu", TorchRole::kDType, "float8_e8m0fnu", 1, DType::kF8E8M0},
    {"torch.int1", TorchRole::kDType, "int1", 1},
    {"torch.int16", TorchRole::kDType, "int16", 2, DType::kI16},
    {"torch.int2", TorchRole::kDType, "int2", 1},
    {"torch.int3", TorchRole::kDType, "int3", 1},
    {"torch.int32", TorchRole::kDType, "int32", 4, DType::kI32},
    {"torch.int4", TorchRole::kDType, "int4", 1},
    {"torch.int5", TorchRole::kDType, "int5", 1},
    {"torch.int6", TorchRole::kDType, "int6", 1},
    {"torch.int64", TorchRole::kDType, "int64", 8, DType::kI64},
    {"torch.int7", TorchRole::kDType, "int7", 1},
    {"torch.int8", TorchRole::kDType, "int8", 1, DType::kI8},
    {"torch.nn.parameter.Buffer", TorchRole::kTensorType, ""},
    {"torch.nn.parameter.Parameter", TorchRole::kTensorType, ""},
    {"torch.per_channel_affine", TorchRole::kPlain, "a quantization scheme"},
    {"torch.per_channel_affine_float_qparams", TorchRole::kPlain, "a quantization scheme"},
    {"torch.per_channel_symmetric", TorchRole::kPlain, "a quantization scheme"},
    {"torch.per_tensor_affine", TorchRole::kPlain, "a quantization scheme"},
    {"torch.per_tensor_symmetric", TorchRole::kPlain, "a quantization scheme"},
    {"torch.qint32", TorchRole::kDType, "qint32", 4},
    {"torch.qint8", TorchRole::kDType, "qint8", 1},
    {"torch.quint2x4", TorchRole::kDType, "quint2x4", 1},
    {"torch.quint4x2", TorchRole::kDType, "quint4x2", 1},
    {"torch.quint8", TorchRole::kDType, "quint8", 1},
    {"torch.serialization._get_layout", TorchRole::kPlain, "a layout"},
    {"torch.storage.UntypedStorage", TorchRole::kStorage, "uint8", 1, DType::kU8},
    {"torch.storage._UntypedStorage", TorchRole::kStorage, "uint8", 1, DType::kU8},
    {"torch.uint1", TorchRole::kDType, "uint1", 1},
    {"torch.uint16", TorchRole::kDType, "uint16", 2, DType::kU16},
    {"torch.uint2", TorchRole::kDType, "uint2", 1},
    {"torch.uint3", TorchRole::kDType, "uint3", 1},
    {"torch.uint32", TorchRole::kDType, "uint32", 4, DType::kU32},
    {"torch.uint4", TorchRole::kDType, "uint4", 1},
    {"torch.uint5", TorchRole::kDType, "uint5", 1},
    {"torch.uint6", TorchRole::kDType, "uint6", 1},
    {"torch.uint64", TorchRole::kDType, "uint64", 8, DType::kU64},
    {"torch.uint7", TorchRole::kDType, "uint7", 1},
    {"torch.uint8", TorchRole::kDType, "uint8", 1, DType::kU8},
}};

constexpr bool is_sorted() {
  for (std::size_t i = 1; i < kTorchGlobals.size(); ++i)
    if (kTorchGlobals[i - 1].name >= kTorchGlobals[i].name) return false;
  return true;
}
static_assert(is_sorted());

std::string refusal(std::string_view name) {
  std::string text = "the pickle asks for " + quote_text(name);
  const std::string_view module = name.substr(0, name.find('.'));
  const bool system = module == "posix" || module == "nt";
  if (system) text += " (" + quote_text("os" + std::string(name.substr(module.size()))) + ")";
  text += ", which is not on the list of what a state dict needs; nothing was run. ";
  if (system || module == "os" || module == "sys" || module == "subprocess" || module == "builtins")
    return text + "A checkpoint has no use for it: distrust this file";
  if (module == "numpy")
    return text +
           "It holds NumPy arrays: turn them into tensors or Python numbers, or save only the state dict: "
           "torch.save(model.state_dict(), ...)";
  return text +
         "It holds a whole pickled object: save the state dict instead: torch.save(model.state_dict(), ...)";
}

}  // namespace

const TorchGlobal& torch_global(std::uint16_t id) { return kTorchGlobals[id]; }

std::span<const TorchGlobal> torch_globals() { return kTorchGlobals; }

Result<PickleGlobal> find_torch_global(std::string_view name) {
  const auto found =
      std::lower_bound(kTorchGlobals.begin(), kTorchGlobals.end(), name,
                       [](const TorchGlobal& row, std::string_view key) { return row.name < key; });
  if (found == kTorchGlobals.end() || found->name != name) return Failure{refusal(name)};
  return PickleGlobal{static_cast<std::uint16_t>(found - kTorchGlobals.begin()),
                      found->role == TorchRole::kDictionary, found->role == TorchRole::kObject};
}

}  // namespace crumb
