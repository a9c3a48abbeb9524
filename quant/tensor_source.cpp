#include "quant/tensor_source.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "formats/io/text.h"
#include "quant/packed_tensor.h"

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

}  // namespace

TensorSource TensorSource::open(const std::filesystem::path& path, const std::string& key) {
  TensorSource source;
  if (is_crumb(path)) {
    source.crumb_ = CrumbFile::open(path).take();
    for (const PackedTensor& tensor : source.crumb_->header().tensors) {
      source.tensors_.push_back(
          {tensor.name, tensor.dtype, tensor.shape, tensor.spec, tensor.stored_bytes()});
    }
    std::ranges::sort(source.tensors_, {}, &SourceTensor::name);
    return source;
  }
  source.checkpoint_ = Checkpoint::open(path, {.refuse_quantized = false, .key = key}).take();
  for (const TensorEntry& tensor : source.checkpoint_->tensors()) {
    source.tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, "", tensor.bytes});
  }
  return source;
}

std::string_view TensorSource::kind() const { return crumb_ ? "crumb" : checkpoint_->kind(); }

uint64_t TensorSource::bytes() const { return crumb_ ? crumb_->size() : checkpoint_->input_bytes(); }

const SourceTensor* TensorSource::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &SourceTensor::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::vector<std::byte> TensorSource::raw(const SourceTensor& tensor) const {
  if (checkpoint_) return checkpoint_->load(*checkpoint_->find(tensor.name)).take();
  const PackedTensor& packed = *crumb_->find(tensor.name);
  if (packed.encoding)
    throw Error("tensor " + quote_text(tensor.name) + " is quantized: it has no raw bytes");
  const BlobBytes bytes = crumb_->load(*packed.part(Part::kData), "tensor " + quote_text(tensor.name)).take();
  std::vector<std::byte> copy(bytes.bytes().begin(), bytes.bytes().end());
  crumb_->release(*packed.part(Part::kData));
  return copy;
}

std::vector<float> TensorSource::floats(const SourceTensor& tensor, int threads) const {
  const uint64_t count = element_count(tensor.shape).take("tensor " + quote_text(tensor.name));
  const PackedTensor* packed = crumb_ ? crumb_->find(tensor.name) : nullptr;
  if (packed && packed->encoding) {
    const LoadedTensor loaded = LoadedTensor::load(*crumb_, *packed).take();
    std::vector<float> values(count);
    dequantize(loaded.view(), values, threads);
    for (const auto& blob : packed->parts) {
      if (blob) crumb_->release(*blob);
    }
    return values;
  }
  const std::vector<std::byte> bytes = raw(tensor);
  std::vector<float> values(count);
  widen_to_float(tensor.dtype, bytes, values);
  return values;
}

}  // namespace crumb
