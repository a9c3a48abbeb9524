// Decodes deflate streams (RFC 1951), raw or as gzip files hold them (RFC 1952), piece by piece with zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"

namespace crumb {

/// Decodes as much as was asked for, with about 64 KiB of memory whatever the stream's length. Move-only.
class Inflater {
 public:
  enum class Stream : std::uint8_t {
    kRaw,
    kGzip,  ///< one member: header, stream, checksum
  };

  explicit Inflater(Stream stream = Stream::kRaw);
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;
  ~Inflater();

  struct Step {
    std::size_t consumed = 0;  ///< bytes of `in` that were used up
    std::size_t produced = 0;  ///< bytes of `out` that were filled
    bool ended = false;        ///< the stream's end was reached
  };

  /// Decodes from `in` into `out` until one of them is used up or the stream ends. Fails on a damaged stream.
  Result<Step> step(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crumb
