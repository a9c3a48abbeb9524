#include "graph/output_first.h"

#include <algorithm>

namespace crumb::graph {
namespace {

constexpr std::uint64_t kOutputsAtOnce = 16;  // outputs, where `behind` is 1: a cache line of the constant

}  // namespace

OutputOrder::OutputOrder(std::span<const std::int64_t> shape, MatrixAxes axes) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::uint64_t& size = axis < axes.stack     ? matrices
                          : axis < axes.output  ? before
                          : axis == axes.output ? outputs
                                                : behind;
    size *= static_cast<std::uint64_t>(shape[axis]);
  }
}

/// Calls move(index in the constant, index among the elements, count of contiguous elements) for all
/// elements; of several outputs together where these are adjacent in the constant. Indices among the elements
/// count from `first`.
template <class Move>
void OutputOrder::walk(std::uint64_t first, std::uint64_t count, const Move& move) const {
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t base = (first + done) / matrix() * matrix(), begin = first + done - base;
    const std::uint64_t part = std::min(count - done, matrix() - begin);
    walk_matrix(begin, part, [&](std::uint64_t constant, std::uint64_t element, std::uint64_t run) {
      move(base + constant, done + element, run);
    });
    done += part;
  }
}

template <class Move>
void OutputOrder::walk_matrix(std::uint64_t first, std::uint64_t count, const Move& move) const {
  if (count == 0) return;
  const std::uint64_t end = first + count;
  const auto part = [&](std::uint64_t output, std::uint64_t from, std::uint64_t to) {  // of one output
    while (from < to) {
      const std::uint64_t run = std::min(to - from, behind - from % behind);
      move((from / behind * outputs + output) * behind + from % behind, output * row() + from - first, run);
      from += run;
    }
  };
  std::uint64_t at = first;
  if (const std::uint64_t begun = at % row(); begun != 0) {
    const std::uint64_t to = std::min(row(), begun + end - at);
    part(at / row(), begun, to);
    at += to - begun;
  }
  while (end - at >= row()) {
    const std::uint64_t output = at / row(), several = std::min(kOutputsAtOnce, (end - at) / row());
    for (std::uint64_t p = 0; p < before; ++p)
      for (std::uint64_t o = output; o < output + several; ++o)
        move((p * outputs + o) * behind, o * row() + p * behind - first, behind);
    at += several * row();
  }
  if (at < end) part(at / row(), 0, end - at);
}

void OutputOrder::take(std::span<const float> from, std::uint64_t first, std::span<float> to) const {
  walk(first, to.size(), [&](std::uint64_t constant, std::uint64_t element, std::uint64_t run) {
    std::copy_n(from.data() + constant, run, to.data() + element);
  });
}

void OutputOrder::put(std::span<const float> from, std::uint64_t first, std::span<float> to) const {
  walk(first, from.size(), [&](std::uint64_t constant, std::uint64_t element, std::uint64_t run) {
    std::copy_n(from.data() + element, run, to.data() + constant);
  });
}

std::span<const float> OutputFirst::next(std::uint64_t count) {
  const std::uint64_t size = std::min(count, order_.size() - at_);
  if (order_.before == 1) {  // the constant has this order already
    const std::span<const float> piece = values_.subspan(at_, size);
    at_ += size;
    return piece;
  }
  piece_.resize(size);
  order_.take(values_, at_, piece_);
  at_ += size;
  return piece_;
}

}  // namespace crumb::graph
