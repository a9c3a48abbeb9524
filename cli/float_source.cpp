#include "cli/float_source.h"

#include <algorithm>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "graph/packed/crumb_graph.h"
#include "quant/packed_stream.h"

namespace crumb::cli {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

void read_values(ValueStream& stream, const FloatSource::Sink& sink) {
  for (auto x = stream.next(kStreamPiece); !x.empty(); x = stream.next(kStreamPiece)) sink(std::as_bytes(x));
}

/// The bytes of a checkpoint's tensor as they are, of a type of whole bytes.
void read_plain(const Checkpoint& checkpoint, const TensorEntry& entry, const FloatSource::Sink& sink) {
  TensorReader reader = checkpoint.reader(entry);
  std::vector<std::byte> piece;
  for (std::uint64_t left = entry.bytes; left > 0; left -= piece.size()) {
    piece.resize(std::min(left, kPiece));
    reader.read(piece).take();
    sink(piece);
  }
}

}  // namespace

FloatSource::FloatSource(const std::filesystem::path& path)
    : path_(quote_text(path.string())), source_(TensorSource::open(path)) {
  if (const CrumbFile* packed = source_.crumb()) {
    const bool is_graph = graph::holds_only_graph(packed->header());
    for (const PackedFile& file : packed->header().files)
      if (is_graph || file.path != kCrumbGraphFile) files_.push_back(file.path);
  } else if (source_.kind() == "gguf") {
    for (const ModelFile& file : source_.checkpoint()->files()) files_.push_back(file.path);
  } else {
    throw Error(path_ + " is no packed file: found a " + std::string(source_.kind()) +
                ", expected a .crumb file (or a .gguf file)");
  }
}

std::vector<TensorDescription> FloatSource::tensors() const {
  std::vector<TensorDescription> tensors;
  for (const SourceTensor& tensor : source_.tensors())
    tensors.push_back({tensor.name, is_floating(tensor.dtype) ? DType::kF32 : tensor.dtype, tensor.shape});
  return tensors;
}

void FloatSource::read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                              const Sink& sink) const {
  const CrumbFile* packed = source_.crumb();
  const SourceTensor& found = *source_.find(name);
  if (packed == nullptr) {
    if (is_floating(found.dtype)) return read_values(*source_.stream(found, threads), sink);
    return read_plain(*source_.checkpoint(), *source_.checkpoint()->find(name), sink);
  }
  const PackedTensor& tensor = *packed->find(name);
  if (is_floating(tensor.dtype))
    return read_values(*open_packed_stream(*packed, tensor, scratch, threads), sink);
  packed
      ->read_slices(*tensor.part(Part::kData), part_text(tensor, Part::kData),
                    [&](std::span<const std::byte> slice) {
                      sink(slice);
                      return Status();
                    })
      .take(path_);
}

bool FloatSource::has_file(std::string_view path) const {
  return std::ranges::find(files_, path) != files_.end();
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

bool FloatSource::is_same_file(const std::string& path, const std::filesystem::path& other) const {
  const Result<MappedFile> file = MappedFile::open(other);
  if (!file.ok()) return false;
  std::span<const std::byte> left = file.value().bytes();
  bool same = true;
  read_file(path, [&](std::span<const std::byte> slice) {
    same = same && slice.size() <= left.size() && std::ranges::equal(slice, left.first(slice.size()));
    left = left.subspan(std::min(left.size(), slice.size()));
  });
  return same && left.empty();
}

}  // namespace crumb::cli
