// Low-rank adapters (LoRA), whatever their file format. formats/adapters/read_adapter.h reads either format.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace crumb {

/// The update of one linear layer: y = x W^T + scale * (x down^T) up^T.
struct LowRankUpdate {
  /// The layer's name, as the checkpoint has it; its matrix W [out, in] is "MODULE.weight". (A line that
  /// begins with this member's name and a semicolon would be a directive to C++20.)
  std::string module;
  std::size_t rank = 0, in = 0, out = 0;
  std::vector<float> down;  ///< [rank, in], PEFT's lora_A
  std::vector<float> up;    ///< [out, rank], PEFT's lora_B
  float scale = 1;          ///< alpha / rank; alpha / sqrt(rank) of rank-stabilized ones

  bool operator==(const LowRankUpdate&) const = default;
};

struct Adapter {
  std::string base;                    ///< the model that the file names as its base, or empty
  std::vector<LowRankUpdate> updates;  ///< sorted by module, each once; what was read has at least one

  bool operator==(const Adapter&) const = default;
};

/// Checks what a reader returns and a writer takes: updates are sorted and each occurs once, names are UTF-8
/// and not empty, sizes are above 0 and those of the matrices, numbers are finite. Throws Error, which names
/// the module.
void check_adapter(const Adapter& adapter);

}  // namespace crumb
