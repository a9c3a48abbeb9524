#include "quant/tensor_source.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/files/text.h"
#include "formats/computed_matrix.h"
#include "formats/gguf/ggml_type.h"
#include "quant/packed/packed_stream.h"

namespace crumb {
namespace {

bool is_crumb(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (path.extension() == ".crumb") return true;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> start{};
  file.read(start.data(), start.size());
  return file.gcount() == 8 && looks_like_crumb(std::as_bytes(std::span(start)));
}

SourceTensor source_tensor(const PackedTensor& tensor) {
  SourceTensor made{.name = tensor.name,
                    .dtype = tensor.dtype,
                    .shape = tensor.shape,
                    .spec = tensor.spec,
                    .bytes = tensor.stored_bytes(),
                    .stored_as = tensor.spec.empty() ? std::string(dtype_name(tensor.dtype)) : tensor.spec};
  for (const std::optional<Blob>& part : tensor.parts) made.raw += part ? part->raw : 0;
  return made;
}

SourceTensor source_tensor(const TensorEntry& tensor) {
  const GgmlType* const blocks =
      tensor.place.coding == StorageCoding::kGgmlBlocks ? tensor.place.blocks : nullptr;
  const ComputedMatrix* const computed =
      tensor.place.coding == StorageCoding::kComputed ? tensor.place.computed.get() : nullptr;
  const AffineCodes* const affine =
      tensor.place.coding == StorageCoding::kAffine ? tensor.place.affine.get() : nullptr;
  const uint64_t bytes = blocks || computed || affine ? tensor.place.stored : tensor.bytes;
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .bytes = bytes,
          .stored_as = computed ? computed->stored_as()
                       : affine ? std::string(dtype_name(affine->codes.dtype))
                                : std::string(blocks ? blocks->name : dtype_name(tensor.dtype)),
          .raw = bytes};
}

/// The values of a checkpoint's tensor.
class CheckpointStream final : public ValueStream {
 public:
  CheckpointStream(const Checkpoint& checkpoint, const TensorEntry& entry)
      : entry_(entry),
        reader_(checkpoint.reader(entry)),
        count_(element_count(entry.shape).take("tensor " + quote_text(entry.name))) {}

  std::span<const float> next(uint64_t count) override {
    count = std::min(count, count_ - given_);
    const uint64_t here = read_ - given_;
    if (count > here) {
      // Types below one byte are packed without gaps: eight elements fill whole bytes, and elements that were
      // not asked for wait for the next call.
      const uint64_t bits = dtype_bits(entry_.dtype);
      uint64_t wanted = count - here;
      if (bits < 8) wanted = std::min((wanted + 7) / 8 * 8, count_ - read_);
      bytes_.resize(wanted * bits / 8);
      reader_.read(bytes_).take();
      values_.erase(values_.begin(), values_.end() - static_cast<std::ptrdiff_t>(here));
      values_.resize(here + wanted);
      widen_to_float(entry_.dtype, bytes_, std::span(values_).subspan(here));
      read_ += wanted;
    }
    const auto piece = std::span(values_).subspan(values_.size() - (read_ - given_), count);
    given_ += count;
    return piece;
  }

  void rewind() override {
    reader_.rewind();
    given_ = read_ = 0;
  }

 private:
  const TensorEntry& entry_;
  TensorReader reader_;
  const uint64_t count_;
  uint64_t given_ = 0;
  uint64_t read_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<float> values_;  ///< those that were read last
};

}  // namespace

TensorSource TensorSource::open(const std::filesystem::path& path, const std::string& key) {
  TensorSource source;
  if (is_crumb(path)) {
    source.crumb_ = CrumbFile::open(path).take();
    for (const PackedTensor& tensor : source.crumb_->header().tensors)
      source.tensors_.push_back(source_tensor(tensor));
    std::ranges::sort(source.tensors_, {}, &SourceTensor::name);
    return source;
  }
  source.checkpoint_ =
      Checkpoint::open(path, {.refuse_quantized = false, .key = key, .also = "a packed file (.crumb)"})
          .take();
  for (const TensorEntry& tensor : source.checkpoint_->tensors())
    source.tensors_.push_back(source_tensor(tensor));
  return source;
}

std::string_view TensorSource::kind() const { return crumb_ ? "crumb" : checkpoint_->kind(); }

uint64_t TensorSource::bytes() const { return crumb_ ? crumb_->size() : checkpoint_->input_bytes(); }

const SourceTensor* TensorSource::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &SourceTensor::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::unique_ptr<ValueStream> TensorSource::stream(const SourceTensor& tensor, int threads) const {
  if (checkpoint_) return std::make_unique<CheckpointStream>(*checkpoint_, *checkpoint_->find(tensor.name));
  return open_packed_stream(*crumb_, *crumb_->find(tensor.name), std::filesystem::temp_directory_path(),
                            threads);
}

std::vector<float> TensorSource::floats(const SourceTensor& tensor, int threads) const {
  std::vector<float> values;
  values.reserve(element_count(tensor.shape).take("tensor " + quote_text(tensor.name)));
  const std::unique_ptr<ValueStream> pieces = stream(tensor, threads);
  for (auto x = pieces->next(kStreamPiece); !x.empty(); x = pieces->next(kStreamPiece))
    values.insert(values.end(), x.begin(), x.end());
  return values;
}

}  // namespace crumb
