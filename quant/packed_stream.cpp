#include "quant/packed_stream.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/io/interrupt.h"
#include "formats/io/mapped_file.h"
#include "formats/io/text.h"
#include "quant/parallel.h"
#include "quant/quantized_tensor.h"

namespace crumb {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;      // values that are decoded at a time
constexpr uint64_t kSmallPart = uint64_t{8} << 20;  // bytes up to which a part is held whole
constexpr uint64_t kGrain = uint64_t{1} << 16;      // values that a thread decodes at a time

/// A file without a name.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder) : folder_(folder) {
    std::string name = (folder / ".crumb-scratch-XXXXXX").string();
    fd_ = ::mkstemp(name.data());
    if (fd_ < 0) fail(errno);
    ::unlink(name.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { ::close(fd_); }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(written < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  MappedFile map() const { return MappedFile::open("/proc/self/fd/" + std::to_string(fd_)).take(); }

 private:
  [[noreturn]] void fail(int code) const {
    throw Error("cannot write a temporary file in " + quote_text(folder_.native()) + ": " + errno_text(code));
  }

  std::filesystem::path folder_;
  int fd_ = -1;
};

/// A part's raw bytes, checked, of which only the pages that were looked at since the last release() and at
/// most kSmallPart others are in memory.
class PartBytes {
 public:
  PartBytes(const CrumbFile& file, const PackedTensor& tensor, Part part,
            const std::filesystem::path& scratch)
      : file_(file), blob_(*tensor.part(part)) {
    const std::string what = part_text(tensor, part);
    if (blob_.raw <= kSmallPart) {
      small_ = file.load(blob_, what).take();
      bytes_ = small_->bytes();
    } else if (blob_.codec == Codec::kNone) {
      file.check_blob(blob_, what).take();
      bytes_ = file.stored(blob_);
    } else {
      ScratchFile raw(scratch);
      file.read_slices(blob_, what,
                       [&](std::span<const std::byte> slice) {
                         raw.append(slice);
                         return Status();
                       })
          .take();
      large_ = raw.map();
      bytes_ = large_->bytes();
    }
  }

  std::span<const std::byte> bytes() const { return bytes_; }

  void release() const {
    if (large_) large_->release(0, large_->size());
    file_.release(blob_);
  }

 private:
  const CrumbFile& file_;
  const Blob& blob_;
  std::optional<BlobBytes> small_;
  std::optional<MappedFile> large_;
  std::span<const std::byte> bytes_;
};

void stream_encoded(const CrumbFile& file, const PackedTensor& tensor, const std::filesystem::path& scratch,
                    int threads, const FloatSink& sink) {
  QuantizedView view;
  view.shape = tensor.shape;
  view.encoding = *tensor.encoding;
  view.layout = encoded_layout(view.encoding, tensor.shape).take("tensor " + quote_text(tensor.name));
  std::vector<PartBytes> parts;
  parts.reserve(kPartNames.size());
  const auto open = [&](Part part) -> std::span<const std::byte> {
    if (!tensor.part(part)) return {};
    return parts.emplace_back(file, tensor, part, scratch).bytes();
  };
  view.codes = open(Part::kCodes);
  view.scales = open(Part::kScales);
  view.zeros = open(Part::kZeros);
  view.codebook = open(Part::kCodebook);
  if (const std::span<const std::byte> scale = open(Part::kTensorScale); !scale.empty())
    std::memcpy(&view.tensor_scale, scale.data(), sizeof view.tensor_scale);

  const RowDecoder decoder(view);
  const auto [rows, cols] = view.layout.matrix;
  if (rows == 0 || cols == 0) return;
  std::vector<float> values(std::min(kPiece, rows * cols));
  const auto give = [&](std::span<const float> piece) {
    sink(piece);
    for (const PartBytes& part : parts) part.release();
  };
  if (cols <= values.size()) {
    const uint64_t rows_at_once = values.size() / cols;
    for (uint64_t row = 0; row < rows; row += rows_at_once) {
      check_interrupt();
      const auto piece = std::span(values).first(std::min(rows_at_once, rows - row) * cols);
      decode_rows(decoder, row, piece, threads);
      give(piece);
    }
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t col = 0; col < cols; col += values.size()) {
      check_interrupt();
      const auto piece = std::span(values).first(std::min<uint64_t>(values.size(), cols - col));
      parallel_for(piece.size(), kGrain, threads, [&](size_t begin, size_t end) {
        decoder.values(row, col + begin, piece.subspan(begin, end - begin));
      });
      give(piece);
    }
  }
}

void stream_kept(const CrumbFile& file, const PackedTensor& tensor, const FloatSink& sink) {
  // Slices end anywhere; 24 bytes are whole elements of every dtype.
  constexpr size_t kWhole = 24;
  const uint64_t bits = dtype_bits(tensor.dtype);
  std::vector<std::byte> waiting;
  std::vector<float> values;
  const auto widen = [&](size_t size) {
    values.resize(size * 8 / bits);
    widen_to_float(tensor.dtype, std::span(waiting).first(size), values);
    sink(values);
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(size));
  };
  file.read_slices(*tensor.part(Part::kData), part_text(tensor, Part::kData),
                   [&](std::span<const std::byte> slice) {
                     waiting.insert(waiting.end(), slice.begin(), slice.end());
                     if (const size_t whole = waiting.size() / kWhole * kWhole; whole > 0) widen(whole);
                     return Status();
                   })
      .take();
  if (!waiting.empty()) widen(waiting.size());
}

}  // namespace

void stream_floats(const CrumbFile& file, const PackedTensor& tensor, const std::filesystem::path& scratch,
                   int threads, const FloatSink& sink) {
  if (tensor.encoding)
    stream_encoded(file, tensor, scratch, threads, sink);
  else
    stream_kept(file, tensor, sink);
}

}  // namespace crumb
