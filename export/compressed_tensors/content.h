// A packed file as the folder that transformers loads with the compressed-tensors package.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "export/compressed_tensors/scheme.h"
#include "export/folder/folder_content.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::exporting::compressed_tensors {

class Content final : public FolderContent {
 public:
  /// Plans it: every tensor's form and the configuration. Throws Error that names the tensors that have no
  /// form, their specs and the nearest specs; that the file holds no Hugging Face model. `file` must outlive
  /// it.
  Content(const CrumbFile& file, bool allow_approximate);

  std::vector<TensorDescription> tensors() const override;
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override;
  const std::vector<std::string>& files() const override { return files_; }
  void read_file(const std::string& path, const Sink& sink) const override;

  /// What a person should know.
  const std::vector<std::string>& notes() const { return notes_; }
  std::size_t quantized() const { return layers_.size(); }
  bool is_approximate() const { return is_approximate_; }

 private:
  struct Layer {
    const PackedTensor* tensor = nullptr;
    StoredForm form;
    float tensor_scale = 1;
  };
  /// What a tensor of the folder is made of.
  struct Source {
    const PackedTensor* tensor = nullptr;
    const Layer* layer = nullptr;  ///< null: the tensor as it is, or its floats
    std::string part;              ///< "weight_scale"
  };

  void plan_tensors(bool allow_approximate);
  void add_layer(const Layer& layer);
  void add(const std::string& name, DType dtype, std::vector<std::uint64_t> shape, Source source);
  std::string make_config() const;
  const LoadedTensor& loaded(const PackedTensor& tensor) const;

  const CrumbFile& file_;
  std::vector<Layer> layers_;
  std::vector<const PackedTensor*> plain_;
  std::vector<TensorDescription> tensors_;
  std::map<std::string, Source, std::less<>> sources_;
  std::vector<std::string> files_, notes_, ignored_;
  std::string config_;
  bool is_approximate_ = false;
  // The layer whose parts are read: they come one after the other, as often as not.
  mutable const PackedTensor* open_ = nullptr;
  mutable std::optional<LoadedTensor> opened_;
};

}  // namespace crumb::exporting::compressed_tensors
