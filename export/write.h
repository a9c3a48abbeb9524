// A quantized network as a file for other tools.
//
// The file holds the integers that were meant: weights as (code - zero point) * scale, which rounding to
// nearest turns into the same codes again. After writing, the file is read back and every quantizer's
// integers are compared with what was meant; a difference is an Error, and no file is left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "export/lint/lint.h"
#include "graph/graph.h"

namespace crumb::exporting {

enum class Form : std::uint8_t {
  kQonnx,   ///< QONNX's quantizers
  kQcdq,    ///< QuantizeLinear, Clip, DequantizeLinear
  kFloat,   ///< quantized values folded into float constants; quantizers of activations are left out
  kPacked,  ///< the graph in a packed file, weights as codes: what the runtime opens
};

/// The operator set that brought int4, uint4 and scales of blocks: what WriteOptions::native_types needs.
inline constexpr std::int64_t kNativeOpset = 21;

/// "qonnx", "qcdq", "float", "packed".
std::string_view name_of(Form form);

/// Throws usage Error, which names the nearest one.
Form form_named(std::string_view name);

/// How kQcdq writes the weights of products (MatMul) that are packed as codes.
enum class WeightsAs : std::uint8_t {
  kQcdq,         ///< as all others: integers before a DequantizeLinear
  kMatMulNBits,  ///< onnxruntime's product of packed weights (export/qcdq/block_weight.h says which it holds)
};
inline constexpr std::string_view kWeightsAsNames[] = {"qcdq", "MatMulNBits"};  ///< by the enumerator

/// Throws usage Error, which names the nearest one.
WeightsAs weights_as_named(std::string_view name);

struct WriteOptions {
  Profile profile = Profile::kQonnx;  ///< kQonnx: the rules to keep in addition to the portable ones
  std::int64_t opset = 0;             ///< 0: 13, or the least that the operators need
  /// Of inputs. Sizes that stay open become 1 in QONNX, which needs static shapes; elsewhere they stay open.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  bool allow_approximate =
      false;                  ///< kQonnx: also what the profile's tool computes nearly the same; it is a note
  bool integer_view = false;  ///< kQonnx: quantizers of scale 1, and the scales as Mul behind them
  bool weights_as_float = false;  ///< kQcdq: weights as float32 behind a QuantizeLinear of their own
  WeightsAs weights_as = WeightsAs::kQcdq;   ///< kQcdq
  bool allow_arithmetic = false;             ///< kQcdq: float arithmetic for what QuantizeLinear cannot say
  std::map<std::string, std::string> files;  ///< packed: what the file takes along, by path
  bool native_types = false;  ///< kQcdq, operator set 21: INT4, UINT4, FLOAT4, float8 and scales of blocks
};

struct WriteReport {
  std::int64_t opset = 0;
  std::size_t weights = 0, activations = 0;  ///< quantizers in the file
  std::vector<std::string> notes;            ///< what a person should know: where ties can differ, ...
};

/// Throws Error that names the nodes that the form or profile cannot say, or cannot say without changing
/// numbers.
WriteReport write(const graph::Graph& graph, Form form, const std::filesystem::path& path,
                  const WriteOptions& options = {});

}  // namespace crumb::exporting
