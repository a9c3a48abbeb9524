// Reads the header of a GGUF file front to back, and nothing beyond the file's end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/files/text.h"

namespace crumb {

class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  /// The next number. `what` says in a Failure what was to be read: "the number of tensors".
  template <class T>
  Result<T> number(std::string_view what) {
    const Result<std::span<const std::byte>> bytes = take(sizeof(T), what);
    if (!bytes.ok()) return bytes.failure();
    T value;
    std::memcpy(&value, bytes.value().data(), sizeof value);
    return value;
  }

  /// The next `count` bytes.
  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view what) {
    if (!checked::fits(at_, count, bytes_.size()))
      return Failure{"the file ends inside its header: " + std::string(what) + " at byte " +
                     std::to_string(at_) + " takes " + byte_text(count) + ", but " + std::to_string(left()) +
                     " are left"};
    const std::span<const std::byte> part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }

  /// A length and that many bytes.
  Result<std::span<const std::byte>> text(std::string_view what) {
    const Result<std::uint64_t> length = number<std::uint64_t>(what);
    if (!length.ok()) return length.failure();
    return take(length.value(), what);
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace crumb
