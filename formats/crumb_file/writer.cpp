#include "formats/crumb_file/writer.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "formats/crumb_file/checksum.h"

namespace crumb {

CrumbWriter::CrumbWriter(const std::filesystem::path& path, CrumbHeader plan, int zstd_level)
    : header_(std::move(plan)), zstd_level_(zstd_level), file_(path) {
  const Codec codec = zstd_level > 0 ? Codec::kZstd : Codec::kNone;
  for (PackedTensor& tensor : header_.tensors) {
    const auto sizes = part_sizes(tensor).take("tensor '" + tensor.name + "'");
    for (size_t part = 0; part < sizes.size(); ++part) {
      tensor.parts[part].reset();
      if (!sizes[part]) continue;
      tensor.parts[part] = Blob{.raw = *sizes[part], .codec = codec};
      blobs_.push_back(&*tensor.parts[part]);
    }
  }
  for (PackedFile& file : header_.files) {
    file.blob = Blob{.raw = file.blob.raw, .codec = codec};
    blobs_.push_back(&file.blob);
  }
  const std::vector<std::byte> place(kCrumbPreamble + write_crumb_header(header_).size());
  file_.append(place);
}

void CrumbWriter::write(std::span<const std::byte> raw) {
  if (next_ == blobs_.size()) throw Error("more parts were written than planned");
  Blob& blob = *blobs_[next_];
  if (raw.size() != blob.raw) {
    throw Error("part " + std::to_string(next_) + " has " + std::to_string(raw.size()) +
                " bytes, planned were " + std::to_string(blob.raw));
  }
  file_.pad_to(kCrumbAlignment);
  blob.offset = file_.size();
  if (blob.codec == Codec::kZstd) {
    append_compressed(raw, blob);
    if (file_.size() - blob.offset >= raw.size()) {  // nothing gained: store it as it is
      file_.shrink_to(blob.offset);
      blob.codec = Codec::kNone;
    }
  }
  if (blob.codec == Codec::kNone) {
    file_.append(raw);
    blob.crc = crc32_of(raw);
  }
  blob.stored = file_.size() - blob.offset;
  ++next_;
}

void CrumbWriter::append_compressed(std::span<const std::byte> raw, Blob& blob) {
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
    const std::span<const std::byte> bytes(buffer.data(), out.pos);
    blob.crc = crc32_of(bytes, blob.crc);
    file_.append(bytes);
  }
}

uint64_t CrumbWriter::finish() {
  if (next_ != blobs_.size()) {
    throw Error(std::to_string(blobs_.size() - next_) + " planned parts were not written");
  }
  const std::string header = write_crumb_header(header_);
  if (header.size() > most_crumb_header(file_.size())) {
    throw Error("a header of " + std::to_string(header.size()) + " bytes for a file of " +
                std::to_string(file_.size()) + ": too many small tensors for one packed file");
  }
  file_.write_at(0, write_crumb_preamble(header, file_.size()));
  file_.write_at(kCrumbPreamble, std::as_bytes(std::span(header)));
  const uint64_t size = file_.size();
  file_.commit();
  return size;
}

}  // namespace crumb
