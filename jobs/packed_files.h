// The files that a packed file holds in addition to tensors.
#pragma once

#include <map>
#include <string>

#include "base/files/text.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/recipe/recipe.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {

/// By path: the checkpoint's configuration, tokenizer and chat template, and the recipe.
inline std::map<std::string, std::string> packed_files(const Checkpoint& checkpoint, const Recipe& recipe) {
  std::map<std::string, std::string> files;
  for (const ModelFile& file : checkpoint.files())
    files[file.path] = {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
  files[std::string(kRecipePath)] = to_yaml(recipe);
  return files;
}

/// The same files from a packed file: all of them except the network, which is written anew. Throws Error on
/// damaged bytes.
inline std::map<std::string, std::string> packed_files(const CrumbFile& packed) {
  std::map<std::string, std::string> files;
  for (const PackedFile& file : packed.header().files) {
    if (file.path == kCrumbGraphFile) continue;
    const BlobBytes bytes = packed.load(file.blob, "the file " + quote_text(file.path)).take();
    files[file.path] = {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()};
  }
  return files;
}

/// The files of a checkpoint or a packed file, to go with its weights as they are now.
inline std::map<std::string, std::string> packed_files(const TensorSource& source) {
  if (source.crumb()) return packed_files(*source.crumb());
  Recipe kept;
  kept.embeddings.reset();
  return packed_files(*source.checkpoint(), kept);
}

}  // namespace crumb::jobs
