#include "formats/onnx/wire.h"

#include "base/files/text.h"

namespace crumb {

bool read_wire_varint(std::span<const std::byte> file, std::uint64_t& at, std::uint64_t end,
                      std::uint64_t& value) {
  std::uint64_t bits = 0;
  std::uint64_t next = at;
  for (unsigned shift = 0; shift < 70 && next < end; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(file[next++]);
    bits |= (byte & 127u) << shift;
    if (byte < 128) {
      at = next;
      value = bits;
      return true;
    }
  }
  return false;
}

bool WireReader::fail(const std::string& message) {
  status_ = Failure{message};
  at_ = end_;
  return false;
}

bool WireReader::read_varint(std::uint64_t& value) {
  if (read_wire_varint(file_, at_, end_, value)) return true;
  return fail("damaged at byte " + std::to_string(at_) + ": " +
              (end_ - at_ < 10 ? "its message ends inside a number" : "a number of more than ten bytes"));
}

bool WireReader::take(std::uint64_t size, WireField& field) {
  if (size > end_ - at_)
    return fail("damaged or cut short at byte " + std::to_string(at_) + ": field " +
                std::to_string(field.number) + " takes " + byte_text(size) + ", " +
                std::to_string(end_ - at_) + " are left");
  field.payload = {at_, size};
  at_ += size;
  return true;
}

bool WireReader::next(WireField& field) {
  if (at_ == end_) return false;
  const std::uint64_t start = at_;
  std::uint64_t tag = 0;
  if (!read_varint(tag)) return false;
  if (tag < 8 || tag > 0xFFFFFFFFu)
    return fail("damaged at byte " + std::to_string(start) + ": " + std::to_string(tag) +
                " is no protobuf tag");
  field.number = static_cast<std::uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0: {
      field.type = WireType::kVarint;
      const std::uint64_t begin = at_;
      if (!read_varint(field.varint)) return false;
      field.payload = {begin, at_ - begin};
      return true;
    }
    case 1: field.type = WireType::kFixed64; return take(8, field);
    case 2: {
      field.type = WireType::kBytes;
      std::uint64_t size = 0;
      return read_varint(size) && take(size, field);
    }
    case 5: field.type = WireType::kFixed32; return take(4, field);
    default:
      return fail("damaged at byte " + std::to_string(start) + ": wire type " + std::to_string(tag & 7) +
                  ", expected 0, 1, 2 or 5");
  }
}

}  // namespace crumb
