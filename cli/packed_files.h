// What a packed file takes along besides tensors.
#pragma once

#include <map>
#include <string>

#include "formats/checkpoint/checkpoint.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/recipe/recipe.h"

namespace crumb::cli {

/// By path: the checkpoint's own files (configuration, tokenizer, chat template) and the recipe.
inline std::map<std::string, std::string> packed_files(const Checkpoint& checkpoint, const Recipe& recipe) {
  std::map<std::string, std::string> files;
  for (const ModelFile& file : checkpoint.files())
    files[file.path] = {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
  files[std::string(kRecipePath)] = to_yaml(recipe);
  return files;
}

}  // namespace crumb::cli
