#include "export/folder/float_source.h"

#include <algorithm>

#include "base/files/text.h"
#include "formats/checkpoint/quantized/dequantized_model.h"
#include "graph/packed/crumb_graph.h"
#include "models/configured_network.h"
#include "quant/packed/packed_stream.h"

namespace crumb::exporting {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

void read_floats(ValueStream& stream, const FloatSource::Sink& sink) {
  for (auto x = stream.next(kStreamPiece); !x.empty(); x = stream.next(kStreamPiece)) sink(std::as_bytes(x));
}

/// Of a model that reads images, too, that is its language model.
bool is_folder_of_floats(const Checkpoint& checkpoint) {
  return checkpoint.kind() == "folder" && checkpoint.config() != nullptr && !checkpoint.quantized();
}

/// The bytes of a checkpoint's tensor as they are, of a type of whole bytes.
void read_as_stored(const Checkpoint& checkpoint, const TensorEntry& entry, const FloatSource::Sink& sink) {
  TensorReader reader = checkpoint.reader(entry);
  std::vector<std::byte> piece;
  for (std::uint64_t left = entry.bytes; left > 0; left -= piece.size()) {
    piece.resize(std::min(left, kPiece));
    reader.read(piece).take();
    sink(piece);
  }
}

}  // namespace

FloatSource::FloatSource(const std::filesystem::path& path, FloatTypes types)
    : path_(quote_text(path.string())), types_(types), source_(TensorSource::open(path)) {
  if (const CrumbFile* packed = source_.crumb()) {
    models::expect_network_of_configuration(source_);
    // Where nothing else says which network the tensors are.
    const bool is_graph =
        graph::holds_only_graph(packed->header()) && packed->find_file("config.json") == nullptr;
    for (const PackedFile& file : packed->header().files)
      if (is_graph || file.path != kCrumbGraphFile) files_.push_back(file.path);
  } else if (types == FloatTypes::kAsStored || source_.kind() == "gguf" ||
             source_.checkpoint()->dequantized() || is_folder_of_floats(*source_.checkpoint())) {
    for (const ModelFile& file : source_.checkpoint()->files()) files_.push_back(file.path);
  } else {
    const std::optional<std::string>& why = source_.checkpoint()->quantized();
    throw Error(path_ + " is no packed file: found a " + std::string(source_.kind()) +
                (why ? " (" + *why + ")" : "") +
                ", expected a .crumb file (or a .gguf file, or a folder of a model with its config.json, in "
                "floats or "
                "of " +
                std::string(kReadQuantizations) + ")");
  }
  unused_head_ = models::unused_head(source_);
}

std::vector<TensorDescription> FloatSource::tensors() const {
  std::vector<TensorDescription> tensors;
  for (const SourceTensor& tensor : source_.tensors())
    if (tensor.name != unused_head_)
      tensors.push_back({tensor.name, widens(tensor.dtype) ? DType::kF32 : tensor.dtype, tensor.shape});
  return tensors;
}

bool FloatSource::widens(DType dtype) const {
  return is_floating(dtype) && (is_packed() || types_ == FloatTypes::kFloat32);
}

void FloatSource::read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                              const Sink& sink) const {
  const CrumbFile* packed = source_.crumb();
  const SourceTensor& found = *source_.find(name);
  if (packed == nullptr) {
    if (widens(found.dtype)) return read_floats(*source_.stream(found, threads), sink);
    return read_as_stored(*source_.checkpoint(), *source_.checkpoint()->find(name), sink);
  }
  const PackedTensor& tensor = *packed->find(name);
  if (is_floating(tensor.dtype))
    return read_floats(*open_packed_stream(*packed, tensor, scratch, threads), sink);
  packed
      ->read_slices(*tensor.part(Part::kData), part_text(tensor, Part::kData),
                    [&](std::span<const std::byte> slice) {
                      sink(slice);
                      return Status();
                    })
      .take(path_);
}

void FloatSource::read_file(const std::string& path, const Sink& sink) const {
  const CrumbFile* packed = source_.crumb();
  if (packed == nullptr) return sink(source_.checkpoint()->find_file(path)->bytes);
  const std::string subject = "file " + quote_text(path);
  packed
      ->read_slices(packed->find_file(path)->blob, subject,
                    [&](std::span<const std::byte> slice) {
                      sink(slice);
                      return Status();
                    })
      .take(path_);
}

}  // namespace crumb::exporting
