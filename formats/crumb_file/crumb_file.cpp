#include "formats/crumb_file/crumb_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/checksum.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_pages.h"
#include "base/files/text.h"
#include "formats/crumb_file/decompress.h"

namespace crumb {
namespace {

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

}  // namespace

bool looks_like_crumb(std::span<const std::byte> start) {
  return start.size() >= kCrumbMagic.size() &&
         std::memcmp(start.data(), kCrumbMagic.data(), kCrumbMagic.size()) == 0;
}

std::array<std::byte, kCrumbPreamble> write_crumb_preamble(std::string_view header, uint64_t file_size,
                                                           uint32_t version) {
  std::array<std::byte, kCrumbPreamble> bytes{};
  const auto store = [&](size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  std::memcpy(bytes.data(), kCrumbMagic.data(), kCrumbMagic.size());
  store(8, version);
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
  if (version == 0 || version > kCrumbVersion) {
    return Failure{"format version " + std::to_string(version) + ", this program reads versions 1 to " +
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
  Result<CrumbHeader> header = parse_crumb_header(text, end, file_size, version);
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

Status CrumbFile::for_slices(const Blob& blob, const std::string& what, const Sink& sink) const {
  const std::span<const std::byte> bytes = stored(blob);
  for (uint64_t done = 0; done < bytes.size(); done += kSlice) {
    check_interrupt();
    const auto slice = bytes.subspan(done, std::min<uint64_t>(kSlice, bytes.size() - done));
    if (const Status there = check_readable(slice); !there.ok())
      return Failure{what + ": " + there.failure().message};
    if (Status taken = sink(slice); !taken.ok()) return taken;
    release(slice);
  }
  return {};
}

Status CrumbFile::read_slices(const Blob& blob, const std::string& what, const Sink& sink) const {
  const Sink taken = sink ? sink : [](std::span<const std::byte>) { return Status(); };
  const bool compressed = blob.codec == Codec::kZstd;
  if (!compressed || blob.crc_stored) {
    uint32_t crc = 0;
    const Status summed = for_slices(blob, what, [&](std::span<const std::byte> slice) {
      crc = crc32_of(slice, crc);
      return Status();
    });
    if (!summed.ok()) return summed;
    if (crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  }
  if (!compressed) return sink ? for_slices(blob, what, sink) : Status();
  // Where the sink does not like what it gets, the bytes may be others than were written, which says more.
  uint32_t crc = 0;
  Status liked;
  const Status read = decompress(stored(blob), blob.raw, what, [&](std::span<const std::byte> slice) {
    if (!blob.crc_stored) crc = crc32_of(slice, crc);
    if (liked.ok()) liked = taken(slice);
    return blob.crc_stored ? liked : Status();
  });
  release(blob);
  if (!read.ok()) return read;
  if (!blob.crc_stored && crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  return liked;
}

Status CrumbFile::check_blob(const Blob& blob, const std::string& what) const {
  return read_slices(blob, what, {});
}

Result<BlobBytes> CrumbFile::load(const Blob& blob, const std::string& what) const {
  const std::span<const std::byte> bytes = stored(blob);
  if (const Status there = check_readable(bytes); !there.ok())
    return Failure{what + ": " + there.failure().message};
  if (blob.codec == Codec::kNone || blob.crc_stored) {
    if (const uint32_t crc = crc32_of(bytes); crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  }
  if (blob.codec == Codec::kNone) return BlobBytes(bytes);
  if (blob.raw > kLargeRaw) {
    const Status holds =
        decompress(bytes, blob.raw, what, [](std::span<const std::byte>) { return Status(); });
    if (!holds.ok()) return holds.failure();
  }
  std::vector<std::byte> raw;
  raw.reserve(blob.raw);
  const Status status = decompress(bytes, blob.raw, what, [&](std::span<const std::byte> slice) {
    raw.insert(raw.end(), slice.begin(), slice.end());
    return Status();
  });
  if (!status.ok()) return status.failure();
  if (!blob.crc_stored) {
    if (const uint32_t crc = crc32_of(raw); crc != blob.crc) return checksum_failure(what, crc, blob.crc);
  }
  return BlobBytes(std::move(raw));
}

}  // namespace crumb
