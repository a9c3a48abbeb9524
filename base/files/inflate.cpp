#include "base/files/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <string>

namespace crumb {
namespace {

/// zlib counts in unsigned int.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

}  // namespace

/// zlib's state points back to its stream, so that it must not move.
struct Inflater::State {
  z_stream stream{};
  bool ended = false;

  explicit State(Stream kind) {
    const int window = kind == Stream::kGzip ? MAX_WBITS + 16 : -MAX_WBITS;
    if (inflateInit2(&stream, window) != Z_OK) throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&stream); }
};

Inflater::Inflater(Stream stream) : state_(std::make_unique<State>(stream)) {}
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;
Inflater::~Inflater() = default;

Result<Inflater::Step> Inflater::step(std::span<const std::byte> in, std::span<std::byte> out) {
  z_stream& stream = state_->stream;
  Step step;
  // An empty `out` still shows the stream's end; zlib needs an address all the same.
  Bytef nowhere = 0;
  while (!state_->ended) {
    const std::size_t in_now = std::min(in.size() - step.consumed, kMostAtOnce);
    const std::size_t out_now = std::min(out.size() - step.produced, kMostAtOnce);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data())) + step.consumed;
    stream.avail_in = static_cast<uInt>(in_now);
    stream.next_out = out_now == 0 ? &nowhere : reinterpret_cast<Bytef*>(&out[step.produced]);
    stream.avail_out = static_cast<uInt>(out_now);
    const int answer = inflate(&stream, Z_NO_FLUSH);
    const std::size_t consumed = in_now - stream.avail_in;
    const std::size_t produced = out_now - stream.avail_out;
    step.consumed += consumed;
    step.produced += produced;
    if (answer == Z_MEM_ERROR) throw std::bad_alloc();
    state_->ended = answer == Z_STREAM_END;
    if (answer != Z_OK && answer != Z_BUF_ERROR && answer != Z_STREAM_END)
      return Failure{std::string("the compressed data is damaged") +
                     (stream.msg == nullptr ? "" : std::string(" (") + stream.msg + ")")};
    if (consumed == 0 && produced == 0) break;
  }
  step.ended = state_->ended;
  return step;
}

}  // namespace crumb
