#include "formats/crumb_file/decompress.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_getFrameHeader
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_pages.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr int kMostWindowLog = 23;  // 8 MiB: what zstd's levels up to 19 need
constexpr uint64_t kMostWindow = uint64_t{1} << kMostWindowLog;
constexpr uint64_t kPieceOfFrame = uint64_t{1} << 20;  // bytes that are looked at together

using Decoder = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;

/// A blob begins with the frame that this format allows: not a skippable one, nor of a zstd before 1.0, which
/// the library would read, too; and no larger window, which it overlooks where the output is small.
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

}  // namespace

Status decompress(std::span<const std::byte> stored, uint64_t raw, const std::string& what,
                  const BlobSink& sink) {
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
      const auto slice = stored.subspan(in.size, std::min<uint64_t>(kPieceOfFrame, stored.size() - in.size));
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
    if (total > raw) {
      return Failure{what + ": decompresses to more than the " + byte_text(raw) + " that it should have"};
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
  if (total != raw) {
    return Failure{what + ": decompresses to " + byte_text(total) + ", expected " + std::to_string(raw)};
  }
  return {};
}

}  // namespace crumb
