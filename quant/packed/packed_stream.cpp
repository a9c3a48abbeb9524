#include "quant/packed/packed_stream.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "quant/packed/packed_check.h"
#include "quant/quantized_tensor.h"

namespace crumb {
namespace {

constexpr uint64_t kSmallPart = uint64_t{8} << 20;  // parts of up to so many bytes are held whole
constexpr uint64_t kSlice = uint64_t{4} << 20;      // bytes read before their pages are released
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

/// A part's raw bytes, checked. In memory are only the pages that were read since the last release(), and at
/// most kSmallPart others.
class PartBytes {
 public:
  PartBytes(const CrumbFile& file, const PackedTensor& tensor, Part part,
            const std::filesystem::path& scratch)
      : file_(file), blob_(*tensor.part(part)), part_(part) {
    const std::string what = part_text(tensor, part), path = quote_text(file.path().string());
    if (blob_.raw <= kSmallPart) {
      small_ = file.load(blob_, what).take(path);
      bytes_ = small_->bytes();
    } else if (blob_.codec == Codec::kNone) {
      file.check_blob(blob_, what).take(path);
      bytes_ = file.stored(blob_);
    } else {
      ScratchFile raw(scratch);
      file.read_slices(blob_, what,
                       [&](std::span<const std::byte> slice) {
                         raw.append(slice);
                         return Status();
                       })
          .take(path);
      large_ = raw.map();
      bytes_ = large_->bytes();
    }
  }

  Part part() const { return part_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Gives the bytes in slices and releases their pages.
  Status read_slices(const CrumbFile::Sink& sink) const {
    for (uint64_t done = 0; done < bytes_.size(); done += kSlice) {
      check_interrupt();
      const Status taken = sink(bytes_.subspan(done, std::min<uint64_t>(kSlice, bytes_.size() - done)));
      if (!taken.ok()) return taken;
      release();
    }
    return {};
  }

  void release() const {
    if (large_) large_->release(0, large_->size());
    file_.release(blob_);
  }

 private:
  const CrumbFile& file_;
  const Blob& blob_;
  Part part_;
  std::optional<BlobBytes> small_;
  std::optional<MappedFile> large_;
  std::span<const std::byte> bytes_;
};

/// The values of an encoded tensor.
class EncodedStream final : public ValueStream {
 public:
  EncodedStream(const CrumbFile& file, const PackedTensor& tensor, const std::filesystem::path& scratch,
                int threads)
      : threads_(threads), decoder_(open(file, tensor, scratch)) {}

  std::span<const float> next(uint64_t count) override {
    release();
    check_interrupt();
    values_.resize(std::min(count, decoder_.rows() * decoder_.cols() - position_));
    parallel_for(values_.size(), kGrain, threads_, [&](size_t begin, size_t end) {
      decoder_.flat_values(position_ + begin, std::span(values_).subspan(begin, end - begin));
    });
    position_ += values_.size();
    return values_;
  }

  void rewind() override { position_ = 0; }

 private:
  QuantizedView open(const CrumbFile& file, const PackedTensor& tensor,
                     const std::filesystem::path& scratch) {
    parts_.reserve(kPartNames.size());
    const auto part = [&](Part which) -> std::span<const std::byte> {
      if (!tensor.part(which)) return {};
      return parts_.emplace_back(file, tensor, which, scratch).bytes();
    };
    QuantizedView view;
    view.shape = tensor.shape;
    view.encoding = *tensor.encoding;
    view.layout = encoded_layout(view.encoding, tensor.shape).take("tensor " + quote_text(tensor.name));
    view.codes = part(Part::kCodes);
    view.scales = part(Part::kScales);
    view.zeros = part(Part::kZeros);
    view.codebook = part(Part::kCodebook);
    const std::span<const std::byte> scales = part(Part::kTensorScale);
    tensor_scales_.resize(scales.size() / sizeof(float));
    if (!scales.empty()) std::memcpy(tensor_scales_.data(), scales.data(), scales.size());
    view.tensor_scales = tensor_scales_;
    check_encoded(tensor, [&](Part which, const CrumbFile::Sink& sink) {
      return std::ranges::find(parts_, which, &PartBytes::part)->read_slices(sink);
    }).take(quote_text(file.path().string()));
    return view;
  }

  void release() const {
    for (const PartBytes& part : parts_) part.release();
  }

  const int threads_;
  std::vector<PartBytes> parts_;
  std::vector<float> tensor_scales_;
  RowDecoder decoder_;
  uint64_t position_ = 0;
  std::vector<float> values_;
};

/// The values of a tensor that was kept as it was.
class KeptStream final : public ValueStream {
 public:
  KeptStream(const CrumbFile& file, const PackedTensor& tensor, const std::filesystem::path& scratch)
      : dtype_(tensor.dtype),
        count_(element_count(tensor.shape).take("tensor " + quote_text(tensor.name))),
        data_(file, tensor, Part::kData, scratch) {}

  std::span<const float> next(uint64_t count) override {
    data_.release();
    check_interrupt();
    values_.resize(std::min(count, count_ - position_));
    widen_to_float(dtype_, data_.bytes(), position_, values_);
    position_ += values_.size();
    return values_;
  }

  void rewind() override { position_ = 0; }

 private:
  const DType dtype_;
  const uint64_t count_;
  PartBytes data_;
  uint64_t position_ = 0;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<ValueStream> open_packed_stream(const CrumbFile& file, const PackedTensor& tensor,
                                                const std::filesystem::path& scratch, int threads) {
  if (tensor.encoding) return std::make_unique<EncodedStream>(file, tensor, scratch, threads);
  return std::make_unique<KeptStream>(file, tensor, scratch);
}

}  // namespace crumb
