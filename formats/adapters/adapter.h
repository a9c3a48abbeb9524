// Low-rank adapters (LoRA): what a file of one says, whatever its format. formats/adapters/read_adapter.h reads either.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace crumb {

/// What one linear layer computes with it: y = x W^T + scale * (x down^T) up^T.
struct LowRankUpdate {
  /// The layer's name, as the checkpoint has it; its matrix W [out, in] is "MODULE.weight". (A line that begins with this
  /// member's name and a semicolon would be a directive to C++20.)
  std::string module;
  std::size_t rank = 0, in = 0, out = 0;
  std::vector<float> down;  ///< [rank, in], PEFT's lora_A
  std::vector<float> up;    ///< [out, rank], PEFT's lora_B
  float scale = 1;          ///< alpha / rank; alpha / sqrt(rank) of rank-stabilized ones

  bool operator==(const LowRankUpdate&) const = default;
};

struct Adapter {
  std::string base;                    ///< the model that the file says it belongs to, or empty
  std::vector<LowRankUpdate> updates;  ///< sorted by module, each once; at least one in what was read

  bool operator==(const Adapter&) const = default;
};

/// What a reader gives and a writer takes: updates that are sorted and each there once, names that are UTF-8 and not
/// empty, sizes above 0 that the matrices have, finite numbers. Throws Error that names the module.
void check_adapter(const Adapter& adapter);

}  // namespace crumb
