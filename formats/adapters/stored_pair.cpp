#include "formats/adapters/stored_pair.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/gguf/ggml_type.h"
#include "formats/half.h"

namespace crumb {
namespace {

std::string tensor_text(const StoredMatrix& matrix) { return "tensor " + quote_text(matrix.tensor); }

/// "q_proj.lora_B.weight" of "q_proj.lora_A.weight".
std::string other_name(const std::string& tensor, std::string_view end, std::string_view other) {
  const std::size_t at = tensor.rfind(end);
  return at == std::string::npos ? std::string(other) : std::string(tensor).replace(at, end.size(), other);
}

Status check_is_matrix(const StoredMatrix& matrix) {
  if (matrix.shape.size() == 2 && matrix.shape[0] > 0 && matrix.shape[1] > 0) return {};
  return Failure{tensor_text(matrix) + " has the shape " + shape_text(matrix.shape) +
                 ", expected a matrix of a linear layer's update, two sizes above 0"};
}

Result<std::vector<float>> decode(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(element_count(matrix.shape).take()));
  if (matrix.blocks != nullptr)
    decode_ggml(*matrix.blocks, matrix.bytes, 0, values);
  else
    widen_to_float(matrix.dtype, matrix.bytes, values);
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto bad = std::ranges::find_if_not(values, finite);
  if (bad == values.end()) return values;
  const auto count = values.size() - static_cast<std::size_t>(std::ranges::count_if(values, finite));
  return Failure{tensor_text(matrix) + " has " + count_text(count, "number") +
                 " that are infinite or NaN, the first at index " + std::to_string(bad - values.begin())};
}

Result<LowRankUpdate> join(const std::string& module, const StoredPair& pair) {
  for (const StoredMatrix* matrix : {&pair.down, &pair.up})
    if (const Status sound = check_is_matrix(*matrix); !sound.ok()) return sound.failure();
  if (pair.down.shape[0] != pair.up.shape[1])
    return Failure{tensor_text(pair.up) + " has the shape " + shape_text(pair.up.shape) +
                   ", expected as many columns as " + quote_text(pair.down.tensor) +
                   " has rows: its shape is " + shape_text(pair.down.shape)};
  LowRankUpdate update;
  update.module = module;
  update.rank = static_cast<std::size_t>(pair.down.shape[0]);
  update.in = static_cast<std::size_t>(pair.down.shape[1]);
  update.out = static_cast<std::size_t>(pair.up.shape[0]);
  Result<std::vector<float>> down = decode(pair.down), up = decode(pair.up);
  if (!down.ok()) return down.failure();
  if (!up.ok()) return up.failure();
  update.down = std::move(down.value());
  update.up = std::move(up.value());
  return update;
}

}  // namespace

bool is_adapter_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

Result<std::vector<LowRankUpdate>> join_pairs(const std::map<std::string, StoredPair>& pairs,
                                              std::string_view down_end, std::string_view up_end) {
  std::vector<LowRankUpdate> updates;
  for (const auto& [module, pair] : pairs) {
    if (pair.up.tensor.empty())
      return Failure{"tensor " + quote_text(other_name(pair.down.tensor, down_end, up_end)) +
                     " is missing, which belongs to " + quote_text(pair.down.tensor)};
    if (pair.down.tensor.empty())
      return Failure{"tensor " + quote_text(other_name(pair.up.tensor, up_end, down_end)) +
                     " is missing, which belongs to " + quote_text(pair.up.tensor)};
    Result<LowRankUpdate> update = join(module, pair);
    if (!update.ok()) return update.failure();
    updates.push_back(std::move(update.value()));
  }
  return updates;
}

std::vector<std::byte> narrowed(std::span<const float> values, DType dtype, const std::string& tensor) {
  const std::size_t size = dtype_bits(dtype) / 8;
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]);
    float kept = values[i];
    if (dtype == DType::kF16) kept = f16_to_float(static_cast<std::uint16_t>(bits = float_to_f16(values[i])));
    if (dtype == DType::kBF16)
      kept = bf16_to_float(static_cast<std::uint16_t>(bits = float_to_bf16(values[i])));
    if (!std::isfinite(kept))
      throw Error("tensor " + quote_text(tensor) + " would have a number beyond " +
                  std::string(dtype_name(dtype)) + " at index " + std::to_string(i) + ": " +
                  number_text(values[i]));
    std::memcpy(&bytes[i * size], &bits, size);  // the lower half first, and alone of the two small types
  }
  return bytes;
}

void check_written_type(DType dtype) {
  if (!is_adapter_type(dtype))
    throw usage_error("an adapter is not written in " + std::string(dtype_name(dtype)) +
                      ", expected F32, F16 or BF16");
}

}  // namespace crumb
