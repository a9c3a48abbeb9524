#include "formats/zip/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "base/checksum.h"
#include "base/files/text.h"
#include "formats/zip/records.h"

namespace crumb {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

/// Little-endian numbers, one after the other.
class Record {
 public:
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xff);
    return *this;
  }

  std::string bytes_;
};

/// Raw deflate into a file.
class Deflater {
 public:
  explicit Deflater(OutputFile& file) : file_(file), out_(kPiece) {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream_); }

  /// At most kPiece bytes at a time.
  void append(std::span<const std::byte> piece) { run(piece, Z_NO_FLUSH); }
  void finish() { run({}, Z_FINISH); }

 private:
  void run(std::span<const std::byte> piece, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);
      file_.append(std::span(out_).first(out_.size() - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

  OutputFile& file_;
  std::vector<std::byte> out_;
  z_stream stream_{};
};

/// What the local header and the directory say alike.
struct MemberFields {
  std::string_view name;
  std::uint64_t version = 20;
  bool deflate = false;
  std::uint32_t crc = 0;
  std::uint64_t stored = 0;
  std::uint64_t size = 0;

  /// From the version needed to the extra field's length.
  void write(Record& record, bool wide_sizes, std::uint64_t extra_bytes) const {
    const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return (c & 0x80) == 0; });
    constexpr std::uint64_t kFirstDay = 1u << 5 | 1u;  // of 1980
    record.u16(version).u16(ascii ? 0 : 1u << 11).u16(deflate ? 8 : 0).u16(0).u16(kFirstDay).u32(crc);
    record.u32(wide_sizes ? kSee64 : stored).u32(wide_sizes ? kSee64 : size);
    record.u16(name.size()).u16(extra_bytes);
  }
};

std::string local_header(const MemberFields& fields, bool wide) {
  Record record;
  fields.write(record.u32(kLocalHeader), wide, wide ? 20 : 0);
  record.text(fields.name);
  if (wide) record.u16(kZip64Extra).u16(16).u64(fields.size).u64(fields.stored);
  return record.bytes();
}

std::string directory_entry(const MemberFields& fields, std::uint64_t header_at, bool wide_sizes) {
  const bool wide_offset = header_at >= kSee64;
  const std::uint64_t wide_bytes = (wide_sizes ? 16u : 0u) + (wide_offset ? 8u : 0u);
  Record record;
  record.u32(kDirectoryEntry).u16(fields.version);
  fields.write(record, wide_sizes, wide_bytes == 0 ? 0 : 4 + wide_bytes);
  record.u16(0).u16(0).u16(0).u32(0).u32(wide_offset ? kSee64 : header_at).text(fields.name);
  if (wide_bytes != 0) record.u16(kZip64Extra).u16(wide_bytes);
  if (wide_sizes) record.u64(fields.size).u64(fields.stored);
  if (wide_offset) record.u64(header_at);
  return record.bytes();
}

}  // namespace

void ZipWriter::add(std::string_view name, std::span<const std::span<const std::byte>> parts, bool deflate) {
  if (name.empty() || name.size() > 0xffff || name.find('\0') != std::string_view::npos)
    throw Error("cannot write " + quote_text(file_.path().native()) + ": the name " + quote_text(name) +
                " cannot stand in a zip archive (1 to 65535 bytes, no zero byte)");
  MemberFields fields{.name = name, .deflate = deflate};
  for (const std::span<const std::byte> part : parts) fields.size += part.size();
  // What does not compress grows by 5 bytes in some 16 KiB; room for zip64 sizes is made beforehand.
  const bool wide = fields.size + fields.size / 1024 + 1024 >= kSee64;
  const std::uint64_t header_at = file_.size();
  if (wide || header_at >= kSee64) fields.version = 45;
  const std::size_t header_bytes = local_header(fields, wide).size();
  file_.append(local_header(fields, wide));

  std::optional<Deflater> deflater;
  if (deflate) deflater.emplace(file_);
  for (std::span<const std::byte> rest : parts) {
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPiece));
      rest = rest.subspan(piece.size());
      fields.crc = crc32_of(piece, fields.crc);
      if (deflater)
        deflater->append(piece);
      else
        file_.append(piece);
    }
  }
  if (deflater) deflater->finish();
  fields.stored = file_.size() - header_at - header_bytes;
  const std::string header = local_header(fields, wide);
  file_.write_at(header_at, std::as_bytes(std::span(header)));
  directory_ += directory_entry(fields, header_at, wide);
  ++members_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = file_.size();
  file_.append(directory_);
  const std::uint64_t end = file_.size();
  const bool wide = members_ >= kSee64Short || begin >= kSee64 || end - begin >= kSee64;
  Record record;
  if (wide) {
    record.u32(kEndRecord64).u64(44).u16(45).u16(45).u32(0).u32(0).u64(members_).u64(members_);
    record.u64(end - begin).u64(begin);
    record.u32(kEndLocator64).u32(0).u64(end).u32(1);
  }
  const std::uint64_t members = std::min(members_, kSee64Short);
  record.u32(kEndRecord).u16(0).u16(0).u16(members).u16(members);
  record.u32(std::min(end - begin, kSee64)).u32(std::min(begin, kSee64)).u16(0);
  file_.append(record.bytes());
}

}  // namespace crumb
