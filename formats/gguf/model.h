// A GGUF file as the Hugging Face checkpoint that it was converted from: tensors under that one's names, in its order of
// rows and with its norms, and its configuration and tokenizer made from the metadata.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/stored_tensor.h"

namespace crumb {

/// A text that a Hugging Face folder would have: "config.json".
struct MadeFile {
  std::string path;
  std::string text;
};

struct GgufModel {
  TensorListing listing;
  std::vector<MadeFile> files;  ///< sorted by path
};

/// Of an architecture that Crumb does not know, or with tensors that it cannot name, all tensors keep their GGUF names
/// and there are no files; `skipped` says so. Blocks become F32, plain types stay. A Failure where the header is damaged,
/// metadata that the configuration needs are missing or wrong, a type of tensor is not decoded, the file is one part of
/// several, or an adapter (formats/adapters/gguf_adapter.h).
Result<GgufModel> read_gguf_model(std::span<const std::byte> file);

}  // namespace crumb
