#include "formats/crumb_file/crumb_file.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_getFrameHeader
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_pages.h"
#include "base/files/text.h"
#include "formats/crumb_file/checksum.h"

namespace crumb {
namespace {

constexpr int kMostWindowLog = 23;  // 8 MiB: what zstd's levels up to 19 need
constexpr uint64_t kMostWindow = uint64_t{1} << kMostWindowLog;
constexpr uint64_t kSlice = uint64_t{1} << 20;      // bytes looked at before their pages are given back
constexpr uint64_t kLargeRaw = uint64_t{64} << 20;  // above this a size is proven before it is allocated

template <class T>
T load_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

Failure checksum_failure(const std::string& what, uint32_t found, uint32_t expected) {
  return {what + ": checksum " + hex(found) + ", expected " + hex(expected) + "; the file is damaged"};
}

Status check_zeros(std::span<const std::byte> file, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    if (file[i] != std::byte{0}) {
      return Failure{"the padding byte at offset " + std::to_string(i) + " is not zero; the file is damaged"};
    }
  }
  return {};
}

using Decoder = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;

/// A blob begins with the frame that this format allows: not a skippable one, nor of a zstd before 1.0, which the library
/// would read, too; and no larger window, which it overlooks where the output is small.
Status check_frame(std::span<const std::byte> stored, const std::string& what) {
  ZSTD_frameHeader frame{};
  const size_t missing = ZSTD_getFrameHeader(&frame, stored.data(), stored.size());
  if (ZSTD_isError(missing))
    return Failure{what + ": found no Zstandard frame at its begin: " + ZSTD_getErrorName(missing)};
  if (missing != 0) return Failure{what + ": its compressed data ends early"};
  if (frame.frameType != ZSTD_frame)
    return Failure{what + ": found a skippable frame, expected one with contents"};
  if (frame.windowSize > kMostWindow) {
    return Failure{what + ": its frame has a window of " + byte_text(frame.windowSize) +
                   ", expected at most " + std::to_string(kMostWindow)};
  }
  return {};
}

/// Decompresses a blob slice by slice; a sink's Failure ends it.
Status decompress(std::span<const std::byte> stored, const Blob& blob, const std::string& what,
                  const CrumbFile::Sink& sink) {
  if (Status frame = check_frame(stored, what); !frame.ok()) return frame;
  const Decoder decoder(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!decoder) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(decoder.get(), ZSTD_d_windowLogMax, kMostWindowLog);
  std::vector<std::byte> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{stored.data(), 0, 0};  // grows by slices that can be read
  uint64_t total = 0;
  size_t pending = 1;  // zero once a frame is complete
  while (in.pos < stored.size() || pending != 0) {
    if (in.pos == in.size && in.size < stored.size()) {
      const auto slice = stored.subspan(in.size, std::min<uint64_t>(kSlice, stored.size() - in.size));
      if (const Status there = check_readable(slice); !there.ok())
        return Failure{what + ": " + there.failure().message};
      in.size += slice.size();
    }
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    const size_t before = in.pos;
    pending = ZSTD_decompressStream(decoder.get(), &out, &in);
    if (ZSTD_isError(pending)) {
      return Failure{what + ": zstd at byte " + std::to_string(in.pos) + " of " +
                     std::to_string(stored.size()) + ": " + ZSTD_getErrorName(pending)};
    }
    total += out.pos;
    if (total > blob.raw) {
      return Failure{what + ": decompresses to more than the " + byte_text(blob.raw) +
                     " that it should have"};
    }
    if (Status taken = sink({buffer.data(), out.pos}); !taken.ok()) return taken;
    check_interrupt();
    if (pending == 0 && in.pos < stored.size()) {
      return Failure{what + ": " + follow_text(stored.size() - in.pos, "byte") + " its compressed data"};
    }
    if (in.pos == before && out.pos == 0 && pending != 0 && in.size == stored.size()) {
      return Failure{what + ": its compressed data ends early"};
    }
  }
  if (total != blob.raw) {
    return Failure{what + ": decompresses to " + byte_text(total) + ", expected " + std::to_string(blob.raw)};
  }
  return {};
}

}  // namespace

bool looks_like_crumb(std::span<const std::byte> start) {
  return start.size() >= kCrumbMagic.size() &&
         std::memcmp(start.data(), kCrumbMagic.data(), kCrumbMagic.size()) == 0;
}

std::array<std::byte, kCrumbPreamble> write_crumb_preamble(std::string_view header, uint64_t file_size) {
  std::array<std::byte, kCrumbPreamble> bytes{};
  const auto store = [&](size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  std::memcpy(bytes.data(), kCrumbMagic.data(), kCrumbMagic.size());
  store(8, kCrumbVersion);
  store(16, static_cast<uint64_t>(header.size()));
  store(24, file_size);
  store(32, crc32_of(std::as_bytes(std::span(header))));
  store(36, crc32_of(std::span(bytes).first(36)));
  return bytes;
}

Result<CrumbHeader> parse_crumb(std::span<const std::byte> file) {
  if (!looks_like_crumb(file)) {
    return Failure{"not a packed file: expected it to begin with the bytes 89 43 52 55 4d 42 0d 0a"};
  }
  if (file.size() < kCrumbPreamble) {
    return Failure{"cut short: " + byte_text(file.size()) + ", a packed file has at least " +
                   std::to_string(kCrumbPreamble)};
  }
  const auto version = load_at<uint32_t>(file, 8);
  const auto crc = load_at<uint32_t>(file, 36);
  const uint32_t found_crc = crc32_of(file.first(36));
  if (found_crc != crc) return checksum_failure("the preamble", found_crc, crc);
  if (version != kCrumbVersion) {
    return Failure{"format version " + std::to_string(version) + ", this program reads version " +
                   std::to_string(kCrumbVersion)};
  }
  if (load_at<uint32_t>(file, 12) != 0) return Failure{"bytes 12 to 15 are not zero"};
  const auto header_size = load_at<uint64_t>(file, 16);
  const auto file_size = load_at<uint64_t>(file, 24);
  if (file_size != file.size()) {
    const bool shorter = file.size() < file_size;
    return Failure{std::string(shorter ? "cut short: " : "bytes follow its end: ") + byte_text(file.size()) +
                   ", expected " + std::to_string(file_size)};
  }
  const uint64_t most_header = std::min(file.size() - kCrumbPreamble, most_crumb_header(file.size()));
  if (header_size > most_header) {
    return Failure{"a header of " + byte_text(header_size) + " in a file of " + std::to_string(file.size()) +
                   ", expected at most " + std::to_string(most_header)};
  }
  if (const Status zeros = check_zeros(file, 40, kCrumbPreamble); !zeros.ok()) return zeros.failure();
  const std::span<const std::byte> text = file.subspan(kCrumbPreamble, header_size);
  const auto header_crc = load_at<uint32_t>(file, 32);
  const uint32_t found_header_crc = crc32_of(text);
  if (found_header_crc != header_crc) return checksum_failure("the header", found_header_crc, header_crc);
  uint64_t end = kCrumbPreamble + header_size;
  Result<CrumbHeader> header = parse_crumb_header(text, end, file_size);
  if (!header.ok()) return header;
  // Sizes add up to the file's, so every blob lies inside it; what lies between them is padding.
  const auto check_gap = [&](const Blob& blob) {
    Status zeros = check_zeros(file, end, std::min<uint64_t>(blob.offset, file.size()));
    end = blob.offset + blob.stored;
    return zeros;
  };
  for (const PackedTensor& tensor : header.value().tensors) {
    for (const auto& part : tensor.parts) {
      if (!part) continue;
      if (const Status zeros = check_gap(*part); !zeros.ok()) return zeros.failure();
    }
  }
  for (const PackedFile& entry : header.value().files) {
    if (const Status zeros = check_gap(entry.blob); !zeros.ok()) return zeros.failure();
  }
  return header;
}

Result<CrumbFile> CrumbFile::open(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.failure();
  Result<CrumbHeader> header = parse_crumb(file.value().bytes());
  if (!header.ok()) return Failure{quote_text(path.string()) + ": " + header.failure().message};
  const std::span<const std::byte> bytes = file.value().bytes();
  return CrumbFile(std::move(file.value()), bytes, std::move(header.value()));
}

Result<CrumbFile> CrumbFile::in_memory(std::span<const std::byte> bytes) {
  Result<CrumbHeader> header = parse_crumb(bytes);
  if (!header.ok()) return header.failure();
  return CrumbFile(std::nullopt, bytes, std::move(header.value()));
}

CrumbFile::CrumbFile(std::optional<MappedFile> file, std::span<const std::byte> bytes, CrumbHeader header)
    : file_(std::move(file)), bytes_(bytes), header_(std::move(header)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::ranges::sort(by_name_, {}, [&](size_t i) -> std::string_view { return header_.tensors[i].name; });
}

const PackedTensor* CrumbFile::find(std::string_view name) const {
  const auto name_of = [&](size_t i) -> std::string_view { return header_.tensors[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found != by_name_.end() && name_of(*found) == name ? &header_.tensors[*found] : nullptr;
}

const PackedFile* CrumbFile::find_file(std::string_view path) const {
  const auto found = std::ranges::find(header_.files, path, &PackedFile::path);
  return found == header_.files.end() ? nullptr : &*found;
}

Status CrumbFile::read_slices(const Blob& blob, const std::string& what, const Sink& sink) const {
  const std::span<const std::byte> bytes = stored(blob);
  const auto for_slices = [&](const auto& visit) -> Status {
    for (uint64_t done = 0; done < bytes.size(); done += kSlice) {
      check_interrupt();
      const auto slice = bytes.subspan(done, std::min<uint64_t>(kSlice, bytes.size() - done));
      if (const Status there = check_readable(slice); !there.ok())
        return Failure{what + ": " + there.failure().message};
      if (Status visited = visit(slice); !visited.ok()) return visited;
      release(slice);
    }
    return {};
  };
  uint32_t crc = 0;
  const Status summed = for_slices([&](std::span<const std::byte> slice) {
    crc = crc32_of(slice, crc);
    return Status();
  });
  if (!summed.ok()) return summed;
  if (crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  if (blob.codec == Codec::kNone) return sink ? for_slices(sink) : Status();
  Status status = decompress(
      bytes, blob, what, sink ? sink : [](std::span<const std::byte>) { return Status(); });
  release(bytes);
  return status;
}

Status CrumbFile::check_blob(const Blob& blob, const std::string& what) const {
  return read_slices(blob, what, {});
}

Result<BlobBytes> CrumbFile::load(const Blob& blob, const std::string& what) const {
  const std::span<const std::byte> bytes = stored(blob);
  if (const Status there = check_readable(bytes); !there.ok())
    return Failure{what + ": " + there.failure().message};
  if (const uint32_t crc = crc32_of(bytes); crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  if (blob.codec == Codec::kNone) return BlobBytes(bytes);
  if (blob.raw > kLargeRaw) {
    const Status holds = decompress(bytes, blob, what, [](std::span<const std::byte>) { return Status(); });
    if (!holds.ok()) return holds.failure();
  }
  std::vector<std::byte> raw;
  raw.reserve(blob.raw);
  const Status status = decompress(bytes, blob, what, [&](std::span<const std::byte> slice) {
    raw.insert(raw.end(), slice.begin(), slice.end());
    return Status();
  });
  if (!status.ok()) return status.failure();
  return BlobBytes(std::move(raw));
}

}  // namespace crumb
