// What a session holds, as bytes. All numbers are little-endian.
//
//   8 bytes  "crumb-kv"
//   uint32   version: 1
//   uint32   number of values
//   uint64   positions that each has
//   then for each value, in the order of the ties:
//     uint32   bytes of the name, then the name of the input
//     uint32   element type, ONNX's number
//     uint32   number of axes, then an int64 for each (without positions: 0 axes)
//     uint64   bytes of the elements, then the elements as the type stores them, row-major
//   uint32   CRC-32 of all before
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/array.h"

namespace crumb::runtime {

struct SavedValue {
  std::string name;
  ElementType type = ElementType::kUnknown;
  Ints shape;
  std::span<const std::byte> elements;  ///< as many as type and shape say
};

struct SavedSession {
  std::uint64_t places = 0;
  std::vector<SavedValue> values;
};

std::vector<std::byte> session_bytes(const SavedSession& session);

/// Views into the bytes. The sizes fit the bytes; the caller checks that names, types and shapes are those of
/// its session.
Result<SavedSession> parse_session(std::span<const std::byte> bytes);

}  // namespace crumb::runtime
