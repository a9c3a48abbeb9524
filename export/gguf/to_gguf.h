// A decoder as a GGUF file that llama.cpp runs: tensors under its names and in its order of rows, codes and
// scales as they are, configuration and tokenizer as metadata. The inverse of formats/gguf/model.h, and
// checked by it: before the file gets its name it is read back, and must be the same network with the same
// numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "quant/tensor_source.h"

namespace crumb::exporting {

struct GgufReport {
  std::uint64_t bytes = 0;
  std::map<std::string, std::size_t> types;  ///< tensors of each, by its name in GGUF
  std::vector<std::string> notes;            ///< for people
};

/// Writes a packed file, or any other checkpoint, of an architecture that GGUF has
/// (formats/gguf/architecture.h). Throws Error: another architecture, or settings of it that GGUF cannot say;
/// a tensor that has no name there; a spec that no type holds (export/gguf/block_type.h), with the nearest
/// that one does; a tokenizer that GGUF cannot say; damaged bytes; what writing meets; a file that reads back
/// otherwise. One tensor is in memory at a time.
GgufReport write_gguf(const TensorSource& source, const std::filesystem::path& output);

}  // namespace crumb::exporting
