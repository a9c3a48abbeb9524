#include "encoder/model_source.h"

#include "base/files/text.h"
#include "quant/tensor_source.h"
#include "runtime/packed_matrix.h"

namespace crumb::encoder {
namespace {

class OpenedModel final : public runtime::WeightSource {
 public:
  explicit OpenedModel(const std::filesystem::path& path) : path_(path), source_(TensorSource::open(path)) {
    const Checkpoint* checkpoint = source_.checkpoint();
    if (checkpoint && checkpoint->quantized()) {
      throw Error(quote_text(path.string()) +
                  " is already quantized by another tool: " + *checkpoint->quantized());
    }
  }

  bool has(std::string_view name) const override { return source_.find(name) != nullptr; }

  std::vector<size_t> shape(std::string_view name) const override {
    const SourceTensor& tensor = require(name);
    return {tensor.shape.begin(), tensor.shape.end()};
  }

  std::unique_ptr<runtime::Matrix> matrix(std::string_view name) const override {
    const SourceTensor& tensor = require(name);
    if (tensor.shape.size() != 2) {
      throw Error(describe() + ": tensor " + quote_text(tensor.name) + " has shape " +
                  shape_text(tensor.shape) + ", expected a matrix");
    }
    if (const CrumbFile* file = source_.crumb(); file && !tensor.spec.empty()) {
      return std::make_unique<runtime::PackedMatrix>(
          LoadedTensor::load(*file, *file->find(name)).take(describe()));
    }
    return std::make_unique<runtime::FloatMatrix>(tensor.shape[0], tensor.shape[1], source_.floats(tensor));
  }

  std::vector<float> vector(std::string_view name) const override { return source_.floats(require(name)); }

  std::optional<std::string> file(std::string_view relative_path) const override {
    const auto text = [](std::span<const std::byte> bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    if (const CrumbFile* crumb = source_.crumb()) {
      const PackedFile* entry = crumb->find_file(relative_path);
      if (!entry) return std::nullopt;
      return text(crumb->load(entry->blob, "file " + quote_text(entry->path)).take(describe()).bytes());
    }
    const ModelFile* entry = source_.checkpoint()->find_file(relative_path);
    return entry ? std::optional(text(entry->bytes)) : std::nullopt;
  }

  std::string describe() const override {
    return (source_.kind() == "folder" ? "folder " : "file ") + quote_text(path_.string());
  }

 private:
  const SourceTensor& require(std::string_view name) const {
    const SourceTensor* tensor = source_.find(name);
    if (!tensor) throw Error(describe() + " has no tensor " + quote_text(name));
    return *tensor;
  }

  std::filesystem::path path_;
  TensorSource source_;
};

}  // namespace

std::unique_ptr<runtime::WeightSource> open_model(const std::filesystem::path& path) {
  return std::make_unique<OpenedModel>(path);
}

}  // namespace crumb::encoder
