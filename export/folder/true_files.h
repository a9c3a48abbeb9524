// A model's folder whose files say what its tensors are: config.json the type that holds all of them
// ("dtype", as version 5 of transformers writes it, and "torch_dtype" of version 4), so that a folder loads
// as the numbers that lie in it; tokenizer_config.json the inputs that the model takes ("model_input_names"),
// so that what a tokenizer makes can be given to generate().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "export/folder/folder_content.h"

namespace crumb::exporting {

class TrueFiles final : public FolderContent {
 public:
  /// The content must outlive it. Files that say it already, or do not parse, are as they were, and so is the
  /// type of a model whose configuration says how it is quantized.
  explicit TrueFiles(const FolderContent& content);

  std::vector<TensorDescription> tensors() const override { return content_.tensors(); }
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override {
    content_.read_tensor(name, scratch, threads, sink);
  }
  const std::vector<std::string>& files() const override { return content_.files(); }
  void read_file(const std::string& path, const Sink& sink) const override;

 private:
  const FolderContent& content_;
  std::map<std::string, std::string> changed_;
};

}  // namespace crumb::exporting
