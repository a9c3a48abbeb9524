// A GGUF file as the Hugging Face checkpoint that it was converted from: with that checkpoint's names of
// tensors, order of rows and norms, and with its configuration and tokenizer made from the metadata.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf/split.h"
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

/// Where Crumb does not know the architecture, or cannot name a tensor, all tensors keep their GGUF names and
/// there are no files; `skipped` says so. Blocks become F32, plain types stay. A Failure where the header is
/// damaged, metadata that the configuration needs are missing or wrong, a type of tensor is not decoded, the
/// file is one part of several, or it is an adapter (formats/adapters/gguf_adapter.h).
Result<GgufModel> read_gguf_model(std::span<const std::byte> file);

/// The same of all files of a model (find_gguf_parts). `own`: the part whose tensors have no
/// StoredTensor::file.
Result<GgufModel> read_gguf_model(std::span<const GgufPart> parts, const std::string& own);

}  // namespace crumb
