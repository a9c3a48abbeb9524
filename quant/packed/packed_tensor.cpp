#include "quant/packed/packed_tensor.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "base/files/text.h"
#include "quant/codes/code_layout.h"
#include "quant/packed/packed_check.h"

namespace crumb {

Result<LoadedTensor> LoadedTensor::load(const CrumbFile& file, const PackedTensor& tensor) {
  LoadedTensor loaded;
  QuantizedView& view = loaded.view_;
  view.shape = tensor.shape;
  view.encoding = *tensor.encoding;
  Result<EncodedLayout> layout = encoded_layout(view.encoding, tensor.shape);
  if (!layout.ok()) return layout.failure();
  view.layout = layout.value();
  loaded.parts_.reserve(kPartNames.size());
  std::array<std::span<const std::byte>, kPartNames.size()> part_bytes;
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    const auto part = static_cast<Part>(i);
    if (!tensor.part(part)) continue;
    Result<BlobBytes> bytes = file.load(*tensor.part(part), part_text(tensor, part));
    if (!bytes.ok()) return bytes.failure();
    const std::span<const std::byte> span = loaded.parts_.emplace_back(std::move(bytes.value())).bytes();
    part_bytes[i] = span;
    switch (part) {
      case Part::kData: break;
      case Part::kCodes: view.codes = span; break;
      case Part::kScales: view.scales = span; break;
      case Part::kZeros: view.zeros = span; break;
      case Part::kCodebook: view.codebook = span; break;
      case Part::kTensorScale:
        loaded.tensor_scales_.resize(span.size() / sizeof(float));
        std::memcpy(loaded.tensor_scales_.data(), span.data(), span.size());
        view.tensor_scales = loaded.tensor_scales_;
        break;
    }
  }
  const Status sound = check_encoded(tensor, [&](Part part, const CrumbFile::Sink& sink) {
    return sink(part_bytes[static_cast<size_t>(part)]);
  });
  if (!sound.ok()) return sound.failure();
  return loaded;
}

Result<QuantizedTensor> copy_encoded(const CrumbFile& file, const PackedTensor& packed) {
  const Result<LoadedTensor> loaded = LoadedTensor::load(file, packed);
  if (!loaded.ok()) return loaded.failure();
  QuantizedTensor tensor = in_layout(loaded.value().view(), packed.spec, CodeLayout::kRows);
  file.release(*packed.part(Part::kCodes));
  return tensor;
}

namespace {

/// The codes of a tensor that is stored without compression.
class MappedCodes final : public BorrowedCodes {
 public:
  MappedCodes(std::shared_ptr<const CrumbFile> file, const PackedTensor& tensor)
      : file_(std::move(file)), tensor_(tensor) {}

  std::span<const std::byte> bytes() const override { return file_->stored(*tensor_.part(Part::kCodes)); }

  void release() const override { file_->release(*tensor_.part(Part::kCodes)); }

  void check() const override {
    std::call_once(once_, [&] {
      const std::string path = file_->path().string();
      check_codes(tensor_, parts_of(*file_, tensor_)).take(path.empty() ? "" : quote_text(path));
    });
  }

 private:
  const std::shared_ptr<const CrumbFile> file_;
  const PackedTensor& tensor_;  ///< a tensor of file_'s header
  mutable std::once_flag once_;
};

}  // namespace

Result<QuantizedTensor> borrow_encoded(const std::shared_ptr<const CrumbFile>& file,
                                       const PackedTensor& packed) {
  if (packed.part(Part::kCodes)->codec != Codec::kNone) return copy_encoded(*file, packed);
  if (const Status sound = check_blocks(packed, parts_of(*file, packed)); !sound.ok()) return sound.failure();
  QuantizedTensor tensor;
  tensor.spec = packed.spec;
  tensor.shape = packed.shape;
  tensor.encoding = *packed.encoding;
  tensor.layout = encoded_layout(tensor.encoding, tensor.shape).take();
  const auto copied = [&](Part part) -> Result<std::vector<std::byte>> {
    if (!packed.part(part)) return std::vector<std::byte>();
    const Result<BlobBytes> bytes = file->load(*packed.part(part), part_text(packed, part));
    if (!bytes.ok()) return bytes.failure();
    std::vector<std::byte> made(bytes.value().bytes().begin(), bytes.value().bytes().end());
    file->release(*packed.part(part));  // else the part would be in memory twice
    return made;
  };
  const std::pair<Part, std::vector<std::byte>*> parts[] = {
      {Part::kScales, &tensor.scales}, {Part::kZeros, &tensor.zeros}, {Part::kCodebook, &tensor.codebook}};
  for (const auto& [part, to] : parts) {
    Result<std::vector<std::byte>> bytes = copied(part);
    if (!bytes.ok()) return bytes.failure();
    *to = bytes.take();
  }
  const Result<std::vector<std::byte>> scales = copied(Part::kTensorScale);
  if (!scales.ok()) return scales.failure();
  tensor.tensor_scales.resize(scales.value().size() / sizeof(float));
  if (!scales.value().empty())
    std::memcpy(tensor.tensor_scales.data(), scales.value().data(), scales.value().size());
  tensor.borrowed = std::make_shared<const MappedCodes>(file, packed);
  return tensor;
}

PackedTensor plan_encoded(std::string name, DType dtype, std::vector<uint64_t> shape, std::string spec,
                          const Encoding& encoding) {
  PackedTensor plan;
  plan.name = std::move(name);
  plan.dtype = dtype;
  plan.shape = std::move(shape);
  plan.spec = std::move(spec);
  plan.encoding = encoding;
  return plan;
}

void write_encoded(CrumbWriter& writer, const QuantizedTensor& tensor, CodeLayout codes) {
  if (codes != tensor.encoding.codes)
    return write_encoded(writer, in_layout(tensor.view(), "", codes), codes);
  writer.write(tensor.view().codes);
  write_after_codes(writer, tensor);
}

void write_after_codes(CrumbWriter& writer, const QuantizedTensor& tensor) {
  writer.write(tensor.scales);
  if (tensor.encoding.zero != ZeroPoint::kNone) writer.write(tensor.zeros);
  if (tensor.encoding.number->learned) writer.write(tensor.codebook);
  if (tensor.encoding.tensor_scale) writer.write(std::as_bytes(std::span(tensor.tensor_scales)));
}

}  // namespace crumb
