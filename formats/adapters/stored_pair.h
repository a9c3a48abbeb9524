// The two matrices of a layer's update as a file holds them, inside formats/adapters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/adapters/adapter.h"
#include "formats/dtype.h"

namespace crumb {

struct GgmlType;  // formats/gguf/ggml_type.h

struct StoredMatrix {
  std::string tensor;                ///< its name in the file; empty: there is no such tensor
  std::vector<std::uint64_t> shape;  ///< outermost axis first
  DType dtype = DType::kF32;         ///< F32, F16 or BF16
  const GgmlType* blocks = nullptr;  ///< the type of its blocks, where it is stored in blocks
  std::span<const std::byte> bytes;  ///< all of its data
};

struct StoredPair {
  StoredMatrix down, up;
};

/// Whether values of this type are supported: F32, F16, BF16.
bool is_adapter_type(DType dtype);

/// The updates of the modules, whose scale is left at 1. A Failure names the tensor that is missing (by its
/// name in the file, which ends with `down_end` or `up_end`) or does not fit, what was found and what was
/// expected.
Result<std::vector<LowRankUpdate>> join_pairs(const std::map<std::string, StoredPair>& pairs,
                                              std::string_view down_end, std::string_view up_end);

/// A matrix as the bytes of F32, F16 or BF16, rounded to nearest. Throws Error, which names the tensor, where
/// a number is beyond the type.
std::vector<std::byte> narrowed(std::span<const float> values, DType dtype, const std::string& tensor);

/// Throws usage Error for types other than those three.
void check_written_type(DType dtype);

}  // namespace crumb
