#include "quant/packed_tensor.h"

#include <cstring>

#include "quant/code_layout.h"
#include "quant/packed_check.h"

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
      case Part::kTensorScale: std::memcpy(&view.tensor_scale, span.data(), sizeof view.tensor_scale); break;
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
  if (codes != tensor.encoding.codes) return write_encoded(writer, in_layout(tensor.view(), "", codes), codes);
  writer.write(tensor.codes);
  write_after_codes(writer, tensor);
}

void write_after_codes(CrumbWriter& writer, const QuantizedTensor& tensor) {
  writer.write(tensor.scales);
  if (tensor.encoding.zero != ZeroPoint::kNone) writer.write(tensor.zeros);
  if (tensor.encoding.number->learned) writer.write(tensor.codebook);
  if (tensor.encoding.tensor_scale) writer.write(std::as_bytes(std::span(&tensor.tensor_scale, 1)));
}

}  // namespace crumb
