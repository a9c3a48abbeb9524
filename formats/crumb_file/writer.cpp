#include "formats/crumb_file/writer.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_estimateCStreamSize
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/checked_size.h"
#include "base/checksum.h"
#include "base/files/text.h"

namespace crumb {

namespace {

/// The blobs of a plan in the order of the file, sizes filled in.
std::vector<Blob*> plan_blobs(CrumbHeader& header, Codec codec) {
  std::vector<Blob*> blobs;
  for (PackedTensor& tensor : header.tensors) {
    const auto sizes = part_sizes(tensor).take("tensor " + quote_text(tensor.name));
    const bool in_tiles = tensor.encoding && tensor.encoding->codes == CodeLayout::kTiles;
    for (size_t part = 0; part < sizes.size(); ++part) {
      tensor.parts[part].reset();
      if (!sizes[part]) continue;
      tensor.parts[part] = Blob{.raw = *sizes[part], .codec = in_tiles ? Codec::kNone : codec};
      blobs.push_back(&*tensor.parts[part]);
    }
  }
  for (PackedFile& file : header.files) {
    file.blob = Blob{.raw = file.blob.raw, .codec = codec};
    blobs.push_back(&file.blob);
  }
  return blobs;
}

/// Throws where it passes 2^64.
uint64_t aligned(uint64_t offset) {
  const checked::Size up = checked::align_up(offset, kCrumbAlignment);
  if (!up) throw Error("the file would pass 2^64 bytes");
  return *up;
}

void check_header_size(uint64_t header, uint64_t file) {
  if (header <= most_crumb_header(file)) return;
  throw Error("a header of " + std::to_string(header) + " bytes for a file of " + std::to_string(file) +
              ": too many small tensors for one packed file");
}

CrumbHeader with_names_checked(CrumbHeader plan) {
  check_crumb_names(plan).take();
  plan.version = kCrumbVersion;
  return plan;
}

}  // namespace

CrumbWriter::CrumbWriter(const std::filesystem::path& path, CrumbHeader plan, int zstd_level,
                         LeftOver left_over)
    : header_(with_names_checked(std::move(plan))), zstd_level_(zstd_level), file_(path, left_over) {
  blobs_ = plan_blobs(header_, zstd_level > 0 ? Codec::kZstd : Codec::kNone);
  end_ = kCrumbPreamble + write_crumb_header(header_).size();
}

bool CrumbWriter::take_over(std::span<const Blob> recorded) {
  if (recorded.size() > blobs_.size() - next_) return false;
  uint64_t end = end_;
  std::vector<std::byte> piece;
  const auto is_zero = [&](uint64_t begin, uint64_t until) {  // padding
    piece.resize(until - begin);
    file_.read_at(begin, piece);
    return std::ranges::all_of(piece, [](std::byte b) { return b == std::byte{0}; });
  };
  for (size_t i = 0; i < recorded.size(); ++i) {
    const Blob& blob = recorded[i];
    if (blob.offset != aligned(end) || blob.raw != blobs_[next_ + i]->raw ||
        !checked::fits(blob.offset, blob.stored, file_.size()))
      return false;
    if (!is_zero(end, blob.offset)) return false;
    if (!holds(blob)) return false;
    end = blob.offset + blob.stored;
  }
  for (const Blob& blob : recorded) *blobs_[next_++] = blob;
  end_ = end;
  return true;
}

/// Whether what lies in the file is what was written: its checksum. Takes as much memory as compressing it
/// did.
bool CrumbWriter::holds(const Blob& blob) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  uint32_t crc = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    crc = crc32_of(bytes, crc);
    return Status();
  };
  const uint64_t most = blob.codec == Codec::kZstd ? blob.stored : kPiece;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < blob.stored; at += piece.size()) {
    piece.resize(std::min(most, blob.stored - at));
    file_.read_at(blob.offset + at, piece);
    if (blob.codec == Codec::kNone) {
      (void)add(piece);
    } else if (!decompress(piece, blob.raw, "a part", add).ok()) {
      return false;
    }
  }
  return crc == blob.crc && (blob.codec == Codec::kNone ? blob.stored == blob.raw : blob.stored < blob.raw);
}

/// Drops what an earlier run left beyond what was taken over; keeps the header's place.
void CrumbWriter::cut_to_end() {
  if (file_.size() > end_) file_.shrink_to(end_);
  if (file_.size() < end_) file_.append(std::vector<std::byte>(end_ - file_.size()));
}

void CrumbWriter::begin_part() {
  if (begun_) return;
  if (next_ == blobs_.size()) throw Error("more parts were written than planned");
  cut_to_end();
  file_.pad_to(kCrumbAlignment);
  blobs_[next_]->offset = file_.size();
  if (blobs_[next_]->codec == Codec::kZstd) waiting_.reserve(blobs_[next_]->raw);
  begun_ = true;
}

void CrumbWriter::append(std::span<const std::byte> raw) {
  begin_part();
  Blob& blob = *blobs_[next_];
  appended_ += raw.size();
  if (appended_ > blob.raw) return;  // end_part() tells
  if (blob.codec == Codec::kZstd) {
    waiting_.insert(waiting_.end(), raw.begin(), raw.end());
    return;
  }
  file_.append(raw);
  blob.crc = crc32_of(raw, blob.crc);
}

void CrumbWriter::end_part() {
  begin_part();
  Blob& blob = *blobs_[next_];
  if (appended_ != blob.raw) {
    throw Error("part " + std::to_string(next_) + " has " + std::to_string(appended_) +
                " bytes, planned were " + std::to_string(blob.raw));
  }
  if (blob.codec == Codec::kZstd) {
    blob.crc = crc32_of(waiting_);
    append_compressed(waiting_);
    if (file_.size() - blob.offset >= waiting_.size()) {  // nothing gained: store it as it is
      file_.shrink_to(blob.offset);
      blob.codec = Codec::kNone;
      file_.append(waiting_);
    }
    waiting_.clear();
  }
  end_ = file_.size();
  blob.stored = end_ - blob.offset;
  appended_ = 0;
  begun_ = false;
  ++next_;
}

void CrumbWriter::append_compressed(std::span<const std::byte> raw) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> encoder(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!encoder) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(encoder.get(), ZSTD_c_compressionLevel, zstd_level_);
  ZSTD_CCtx_setPledgedSrcSize(encoder.get(), raw.size());
  std::vector<std::byte> buffer(ZSTD_CStreamOutSize());
  ZSTD_inBuffer in{raw.data(), raw.size(), 0};
  for (size_t pending = 1; pending != 0;) {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    pending = ZSTD_compressStream2(encoder.get(), &out, &in, ZSTD_e_end);
    if (ZSTD_isError(pending)) throw Error(std::string("zstd: ") + ZSTD_getErrorName(pending));
    file_.append(std::span<const std::byte>(buffer.data(), out.pos));
  }
}

uint64_t CrumbWriter::finish(const std::function<void(const std::filesystem::path& written)>& check) {
  if (next_ != blobs_.size()) {
    throw Error(std::to_string(blobs_.size() - next_) + " planned parts were not written");
  }
  const std::string header = write_crumb_header(header_);
  cut_to_end();
  check_header_size(header.size(), file_.size());
  file_.write_at(0, write_crumb_preamble(header, file_.size()));
  file_.write_at(kCrumbPreamble, std::as_bytes(std::span(header)));
  const uint64_t size = file_.size();
  if (check) check(file_.partial_path());
  file_.commit();
  return size;
}

uint64_t place_uncompressed(CrumbHeader& plan) {
  const std::vector<Blob*> blobs = plan_blobs(plan, Codec::kNone);
  const uint64_t header = write_crumb_header(plan).size();
  uint64_t end = kCrumbPreamble + header;
  for (Blob* blob : blobs) {
    blob->offset = aligned(end);
    blob->stored = blob->raw;
    const checked::Size next = checked::add(blob->offset, blob->raw);
    if (!next) throw Error("the file would pass 2^64 bytes");
    end = *next;
  }
  check_header_size(header, end);  // compressed, the file may yet be too small for it
  return end;
}

uint64_t zstd_working_bytes(int level) { return level > 0 ? ZSTD_estimateCStreamSize(level) : 0; }

}  // namespace crumb
