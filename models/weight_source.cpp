#include "models/weight_source.h"

#include <span>
#include <utility>

#include "base/files/text.h"

namespace crumb::models {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class OpenedWeights final : public WeightSource {
 public:
  /// Whoever has the source says in front of an error whose it is.
  explicit OpenedWeights(const TensorSource& source) : source_(source) { refuse_quantized(); }

  explicit OpenedWeights(std::shared_ptr<const TensorSource> source)
      : kept_(std::move(source)), source_(*kept_) {
    refuse_quantized();
  }

  explicit OpenedWeights(const std::filesystem::path& path)
      : owned_(TensorSource::open(path)),
        source_(*owned_),
        description_((source_.kind() == "folder" ? "folder " : "file ") + quote_text(path.string())) {
    refuse_quantized();
  }

  OpenedWeights(const OpenedWeights&) = delete;  // source_ may point into it
  OpenedWeights& operator=(const OpenedWeights&) = delete;

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const SourceTensor& tensor : source_.tensors()) all.push_back(tensor.name);
    return all;
  }

  bool has(std::string_view name) const override { return source_.find(name) != nullptr; }

  std::vector<size_t> shape(std::string_view name) const override {
    const SourceTensor& tensor = require(name);
    return {tensor.shape.begin(), tensor.shape.end()};
  }

  std::vector<float> floats(std::string_view name) const override { return source_.floats(require(name)); }

  std::function<std::vector<float>()> later(std::string_view name) const override {
    if (!kept_) return nullptr;
    return [source = kept_, &tensor = require(name)] { return source->floats(tensor); };
  }

  std::optional<QuantizedTensor> codes(std::string_view name) const override {
    const PackedTensor* tensor = encoded(name);
    if (!tensor) return std::nullopt;
    return copy_encoded(*source_.crumb(), *tensor).take(description_);
  }

  std::optional<std::string> file(std::string_view relative_path) const override {
    if (const CrumbFile* crumb = source_.crumb()) {
      const PackedFile* entry = crumb->find_file(relative_path);
      if (!entry) return std::nullopt;
      const std::string what = "file " + quote_text(entry->path);
      return text_of(crumb->load(entry->blob, what).take(description_).bytes());
    }
    const ModelFile* entry = source_.checkpoint()->find_file(relative_path);
    return entry ? std::optional(text_of(entry->bytes)) : std::nullopt;
  }

  std::string why_unconfigured() const override {
    if (source_.checkpoint() == nullptr) return "";
    for (const SkippedEntry& skipped : source_.checkpoint()->skipped())
      if (skipped.name == "configuration") return skipped.what;
    return "";
  }

  const Checkpoint* checkpoint() const override { return source_.checkpoint(); }

  std::string describe() const override { return description_.empty() ? "it" : description_; }

 private:
  void refuse_quantized() const {
    const Checkpoint* checkpoint = source_.checkpoint();
    if (checkpoint && checkpoint->quantized()) {
      throw Error(describe() + " is already quantized by another tool: " + *checkpoint->quantized());
    }
  }

  const SourceTensor& require(std::string_view name) const {
    const SourceTensor* tensor = source_.find(name);
    if (!tensor) throw Error(describe() + " has no tensor " + quote_text(name));
    return *tensor;
  }

  /// Null where it is not quantized, or its codes are no levels that a scale multiplies.
  const PackedTensor* encoded(std::string_view name) const {
    if (!source_.crumb() || require(name).spec.empty()) return nullptr;
    const PackedTensor* tensor = source_.crumb()->find(name);
    return tensor && tensor->encoding && tensor->encoding->has_levels() ? tensor : nullptr;
  }

  std::optional<TensorSource> owned_;
  std::shared_ptr<const TensorSource> kept_;
  const TensorSource& source_;
  std::string description_;  ///< empty: "it"
};

}  // namespace

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  return std::make_unique<OpenedWeights>(path);
}

std::unique_ptr<WeightSource> weights_of(const TensorSource& source) {
  return std::make_unique<OpenedWeights>(source);
}

std::unique_ptr<WeightSource> weights_on(std::shared_ptr<const TensorSource> source) {
  return std::make_unique<OpenedWeights>(std::move(source));
}

}  // namespace crumb::models
