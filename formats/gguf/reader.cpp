#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/gguf/cursor.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/value.h"

namespace crumb {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr unsigned kMostSizes = 4;
constexpr std::uint64_t kLeastEntry = 8 + 4 + 1;       // a key's length, a type, a number
constexpr std::uint64_t kLeastTensor = 8 + 4 + 4 + 8;  // a name's length, no sizes, type, offset

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The name of an entry or tensor.
Result<std::string_view> read_name(GgufCursor& cursor, const std::string& what) {
  const std::uint64_t begin = cursor.at();
  const Result<std::span<const std::byte>> bytes = cursor.text(what);
  if (!bytes.ok()) return bytes.failure();
  const std::string_view name = text_of(bytes.value());
  const std::string subject = what + " at byte " + std::to_string(begin);
  if (name.empty()) return Failure{subject + " is empty"};
  if (name.size() > kGgufLongestName)
    return Failure{subject + " has " + byte_text(name.size()) + ", at most " +
                   std::to_string(kGgufLongestName) + " are read"};
  if (!is_utf8(name)) return Failure{subject + " is " + quote_text(name) + ", expected UTF-8"};
  return name;
}

Result<std::uint64_t> read_count(GgufCursor& cursor, const std::string& what, std::uint64_t most) {
  const std::uint64_t begin = cursor.at();
  const Result<std::uint64_t> count = cursor.number<std::uint64_t>("the number of " + what);
  if (count.ok() && count.value() > most)
    return Failure{"the number of " + what + " at byte " + std::to_string(begin) + " is " +
                   std::to_string(count.value()) + ", at most " + std::to_string(most) + " are read"};
  return count;
}

/// Whether so many things of at least `least` bytes can follow.
Status check_room(const GgufCursor& cursor, std::uint64_t count, std::uint64_t least, std::string_view what) {
  if (count * least <= cursor.left()) return {};
  return Failure{"the header claims " + std::to_string(count) + " " + std::string(what) + ", but " +
                 byte_text(cursor.left()) + " of the file are left for them, and each takes " +
                 std::to_string(least) + " or more"};
}

Result<GgufEntry> read_entry(GgufCursor& cursor) {
  const Result<std::string_view> key = read_name(cursor, "a metadata key");
  if (!key.ok()) return key.failure();
  const auto fail = [&](const Failure& failure) {
    return Failure{"metadata " + quote_text(key.value()) + ": " + failure.message};
  };
  const Result<std::uint32_t> number = cursor.number<std::uint32_t>("a value's type");
  if (!number.ok()) return fail(number.failure());
  const Result<GgufValueType> type = gguf_value_type(number.value());
  if (!type.ok()) return fail(type.failure());
  const Result<GgufValue> value = read_gguf_value(cursor, type.value());
  if (!value.ok()) return fail(value.failure());
  return GgufEntry{key.value(), value.value()};
}

/// `offset` is from the start of the data until place_tensors.
Result<GgufTensor> read_tensor(GgufCursor& cursor) {
  const Result<std::string_view> name = read_name(cursor, "a tensor's name");
  if (!name.ok()) return name.failure();
  GgufTensor tensor;
  tensor.name = name.value();
  const auto fail = [&](const std::string& why) {
    return Failure{"tensor " + quote_text(tensor.name) + ": " + why};
  };
  const Result<std::uint32_t> sizes = cursor.number<std::uint32_t>("the number of its sizes");
  if (!sizes.ok()) return fail(sizes.failure().message);
  if (sizes.value() > kMostSizes)
    return fail("it has " + count_text(sizes.value(), "axis", "axes") + ", expected at most " +
                std::to_string(kMostSizes));
  for (std::uint32_t i = 0; i < sizes.value(); ++i) {
    const Result<std::uint64_t> size = cursor.number<std::uint64_t>("a size");
    if (!size.ok()) return fail(size.failure().message);
    tensor.shape.insert(tensor.shape.begin(), size.value());
  }
  const Result<std::uint32_t> type = cursor.number<std::uint32_t>("its type");
  if (!type.ok()) return fail(type.failure().message);
  const Result<std::uint64_t> offset = cursor.number<std::uint64_t>("its offset");
  if (!offset.ok()) return fail(offset.failure().message);
  tensor.type = find_ggml_type(type.value());
  if (tensor.type == nullptr)
    return fail("its type is number " + std::to_string(type.value()) +
                ", which is no ggml type that Crumb knows");
  tensor.offset = offset.value();
  const Result<std::uint64_t> bytes = gguf_tensor_bytes(*tensor.type, tensor.shape);
  if (!bytes.ok()) return fail(bytes.failure().message);
  tensor.bytes = bytes.value();
  return tensor;
}

Status sort_metadata(std::vector<GgufEntry>& metadata) {
  std::ranges::sort(metadata, {}, &GgufEntry::key);
  const auto twice = std::ranges::adjacent_find(metadata, {}, &GgufEntry::key);
  if (twice == metadata.end()) return {};
  return Failure{"metadata " + quote_text(twice->key) + " occurs twice"};
}

Result<std::uint64_t> find_alignment(const GgufHeader& header) {
  const GgufValue* value = header.find("general.alignment");
  if (value == nullptr) return header.alignment;
  const Result<std::uint64_t> alignment = gguf_natural(*value);
  if (!alignment.ok()) return Failure{"metadata 'general.alignment': " + alignment.failure().message};
  if (!std::has_single_bit(alignment.value()) || alignment.value() > UINT32_MAX)
    return Failure{"metadata 'general.alignment' is " + std::to_string(alignment.value()) +
                   ", expected a power of two below 2^32"};
  return alignment;
}

/// What may be wrong with a file whose tensor has other bytes than its type says.
std::string hint_for(const GgufTensor& tensor) {
  constexpr std::uint32_t kTwoBits = 42;
  if (tensor.type->number != kTwoBits) return "";
  return " (or its Q2_0 is that of a fork of llama.cpp, with blocks of 128 under the same number, which is "
         "not "
         "read: llama.cpp's has blocks of 64)";
}

/// Makes offsets those in the file, and checks where the data lie.
Status place_tensors(GgufHeader& header, std::uint64_t file_size) {
  std::vector<std::uint32_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto fail = [](const GgufTensor& tensor, const std::string& why) {
    return Failure{"tensor " + quote_text(tensor.name) + ": " + why};
  };
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.offset % header.alignment != 0)
      return fail(tensor, "its data begin at data offset " + std::to_string(tensor.offset) +
                              ", expected a multiple of the alignment, " + std::to_string(header.alignment));
    const checked::Size begin = checked::add(tensor.offset, header.data_offset);
    const checked::Size end = checked::add(begin, tensor.bytes);
    if (!end) return fail(tensor, "its data end beyond 2^64 bytes");
    if (tensor.bytes > 0 && *end > file_size)
      return fail(tensor, "its data, " + byte_text(tensor.bytes) + " from byte " + std::to_string(*begin) +
                              " on, end " + byte_text(*end - file_size) +
                              " behind the end of the file, which holds " + byte_text(file_size) +
                              ": it is cut short or damaged" + hint_for(tensor));
    tensor.offset = tensor.bytes > 0 ? *begin : header.data_offset <= file_size ? header.data_offset : 0;
  }
  const auto& tensors = header.tensors;
  std::ranges::sort(order, [&](auto a, auto b) { return tensors[a].name < tensors[b].name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i - 1]].name == tensors[order[i]].name)
      return Failure{"tensor " + quote_text(tensors[order[i]].name) + " occurs twice"};
  std::ranges::sort(order, [&](auto a, auto b) {
    return std::tie(tensors[a].offset, tensors[a].bytes, a) <
           std::tie(tensors[b].offset, tensors[b].bytes, b);
  });
  const GgufTensor* before = nullptr;
  for (const std::uint32_t index : order) {
    const GgufTensor& tensor = tensors[index];
    if (tensor.bytes == 0) continue;
    if (before != nullptr && tensor.offset < before->offset + before->bytes)
      return fail(tensor, "its data begin at byte " + std::to_string(tensor.offset) + ", inside those of " +
                              quote_text(before->name) + ", which end at " +
                              std::to_string(before->offset + before->bytes) + ": they overlap" +
                              hint_for(*before));
    before = &tensor;
  }
  return {};
}

Result<std::uint32_t> read_version(GgufCursor& cursor) {
  const Result<std::span<const std::byte>> magic = cursor.take(kMagic.size(), "the magic");
  if (!magic.ok()) return magic.failure();
  if (text_of(magic.value()) != kMagic)
    return Failure{"the file begins with " + quote_text(text_of(magic.value())) + ", expected 'GGUF'"};
  const Result<std::uint32_t> version = cursor.number<std::uint32_t>("the version");
  if (!version.ok()) return version;
  if (version.value() == 2 || version.value() == 3) return version;
  const std::uint32_t swapped = __builtin_bswap32(version.value());
  if (swapped >= 1 && swapped <= 255)
    return Failure{"this is a big-endian GGUF file (version " + std::to_string(swapped) +
                   "), which is not read; expected a little-endian one"};
  return Failure{"this is GGUF version " + std::to_string(version.value()) + ", expected 2 or 3"};
}

}  // namespace

Result<std::uint64_t> gguf_tensor_bytes(const GgmlType& type, std::span<const std::uint64_t> shape) {
  const Result<std::uint64_t> count = element_count(shape);
  if (!count.ok()) return count;
  const std::uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % type.block_elements != 0)
    return Failure{"its innermost axis has " + std::to_string(row) + " elements, expected a multiple of " +
                   std::to_string(type.block_elements) + ", the block of " + std::string(type.name)};
  const checked::Size bytes = checked::multiply(count.value() / type.block_elements, type.block_bytes);
  if (!bytes || *bytes > INT64_MAX || count.value() > INT64_MAX / sizeof(double))
    return Failure{"the shape " + shape_text(shape) + " of " + std::string(type.name) +
                   " takes more bytes than a file can hold"};
  return *bytes;
}

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(metadata, key, {}, &GgufEntry::key);
  return found != metadata.end() && found->key == key ? &found->value : nullptr;
}

bool looks_like_gguf(std::span<const std::byte> start) { return text_of(start).starts_with(kMagic); }

Result<GgufHeader> parse_gguf(std::span<const std::byte> file) {
  GgufCursor cursor(file);
  GgufHeader header;
  const Result<std::uint32_t> version = read_version(cursor);
  if (!version.ok()) return version.failure();
  header.version = version.value();
  const Result<std::uint64_t> tensors = read_count(cursor, "tensors", kGgufMostTensors);
  if (!tensors.ok()) return tensors.failure();
  const Result<std::uint64_t> entries = read_count(cursor, "metadata entries", kGgufMostEntries);
  if (!entries.ok()) return entries.failure();

  if (Status room = check_room(cursor, entries.value(), kLeastEntry, "metadata entries"); !room.ok())
    return room.failure();
  header.metadata.reserve(entries.value());
  for (std::uint64_t i = 0; i < entries.value(); ++i) {
    Result<GgufEntry> entry = read_entry(cursor);
    if (!entry.ok()) return entry.failure();
    header.metadata.push_back(entry.value());
  }
  if (Status unique = sort_metadata(header.metadata); !unique.ok()) return unique.failure();
  const Result<std::uint64_t> alignment = find_alignment(header);
  if (!alignment.ok()) return alignment.failure();
  header.alignment = alignment.value();

  if (Status room = check_room(cursor, tensors.value(), kLeastTensor, "tensors"); !room.ok())
    return room.failure();
  header.tensors.reserve(tensors.value());
  for (std::uint64_t i = 0; i < tensors.value(); ++i) {
    Result<GgufTensor> tensor = read_tensor(cursor);
    if (!tensor.ok()) return tensor.failure();
    header.tensors.push_back(std::move(tensor.value()));
  }
  const checked::Size data = checked::align_up(cursor.at(), header.alignment);
  if (!data) return Failure{"the header ends beyond 2^64 bytes"};
  header.data_offset = *data;
  if (Status placed = place_tensors(header, file.size()); !placed.ok()) return placed.failure();
  return header;
}

}  // namespace crumb
