// A model in floats with adapters in its matrices, as a Hugging Face folder has it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "export/folder/float_source.h"
#include "formats/adapters/adapter.h"

namespace crumb::exporting {

class MergedSource final : public FolderContent {
 public:
  /// Updates are added in their order, in double, and the sum is rounded once to float32. The source must
  /// outlive it. Throws Error, naming the module, where the model has no such matrix or it has another shape.
  MergedSource(const FloatSource& source, const std::vector<Adapter>& adapters);

  /// Without the matrices of adapters that lie in the file. Matrices with updates are F32.
  std::vector<TensorDescription> tensors() const override;
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override;
  const std::vector<std::string>& files() const override { return files_; }
  void read_file(const std::string& path, const Sink& sink) const override { source_.read_file(path, sink); }

  std::size_t merged() const { return updates_.size(); }  ///< matrices

 private:
  const FloatSource& source_;
  std::vector<std::string> files_;  ///< without the network, which has the adapters as nodes
  std::map<std::string, std::vector<LowRankUpdate>, std::less<>> updates_;  ///< by matrix
};

}  // namespace crumb::exporting
