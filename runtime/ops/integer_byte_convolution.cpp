// Convolutions of bytes (lower/domain.h): output positions are the columns of vectors, output channels the
// rows.
//
// Samples are laid out once with their padding, so that for one term (an input channel and a tap)
// neighbouring positions of an output row take neighbouring bytes: columns that a stride skips are stored
// apart, phase by phase. A panel is the terms of 64 positions as vectors; every output channel's row of
// weights is multiplied with it.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/checked_size.h"
#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/integer/byte_products.h"
#include "runtime/integer/byte_weights.h"
#include "runtime/integer/window_bytes.h"
#include "runtime/meter.h"
#include "runtime/ops/by_shape.h"
#include "runtime/ops/integer_bytes.h"
#include "runtime/ops/integer_sums.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

using integer::kGroup;
using integer::kLanes;
using integer::kVectorBytes;

constexpr std::size_t kPositions = 64;                     // of a panel
constexpr std::size_t kOutputsOfBlock = 24;                // output channels whose sums are held at a time
constexpr std::size_t kMostOutputsOfBlock = 48;            // the same by tiles of sixteen
constexpr std::size_t kCopied = 16;                        // bytes that are copied at a time, needed or not
constexpr std::size_t kMostSample = std::size_t{1} << 40;  // bytes of a sample with its padding
// Bytes up to which several samples are laid out next to each other.
constexpr std::size_t kImageBytes = std::size_t{1} << 20;
constexpr std::size_t kPositionsWanted = 16 * kPositions;  // positions of such samples together
constexpr std::size_t kSlideCost =
    16;  // products of a panel that take as long as one of a window that slides
constexpr std::size_t kSlideAtOnce = std::size_t{1}
                                     << 18;  // products that are worth a thread, one channel each
constexpr std::size_t kLayOutAtOnce = std::size_t{1} << 18;  // bytes that are worth a thread

/// What a convolution derives from its input's shape.
struct Layout {
  graph::Window window;
  Ints shape;  ///< of the output
  std::size_t samples = 0, channels = 0, positions = 0;
  std::size_t rows = 0, width = 0;  ///< of an output channel: it has rows * width positions

  // A sample as it is laid out: [channels, outer sizes..., phases, phase].
  std::size_t sample = 0, channel = 0;  ///< bytes
  std::size_t phases = 1, phase = 1;    ///< of a row, and columns of each
  Ints steps;                           ///< of the outer axes, in bytes
  bool has_padding = true;              ///< whether a sample has bytes that are padding, or that are skipped
  std::size_t input_width = 1, begin = 0;  ///< of the last axis
  std::vector<std::size_t> input_rows;     ///< offsets of the input's rows in a channel
  std::vector<std::size_t> terms;          ///< the offset of each term from the position of its output
  std::vector<std::size_t> bases;          ///< offsets of output rows
};

/// The last axis of the window; one of size 1 where the window has no axis.
struct Last {
  std::size_t outer = 0;
  std::int64_t input = 1, output = 1, begin = 0, stride = 1, dilation = 1, kernel = 1, reach = 1;
};

Last last_of(const graph::Window& w) {
  if (w.axes() == 0) return {};
  const std::size_t i = w.axes() - 1;
  const std::int64_t reach = w.output[i] > 0 ? (w.output[i] - 1) * w.strides[i] + w.extent(i) : 0;
  return {i,
          w.input[i],
          w.output[i],
          w.begin[i],
          w.strides[i],
          w.dilations[i],
          w.kernel[i],
          std::max(w.input[i] + w.begin[i], reach)};
}

/// Offsets of rows in their order: the sum of at(axis, index) over the outer axes of these sizes.
template <class F>
std::vector<std::size_t> rows_of(const Ints& sizes, std::size_t outer, const F& at) {
  std::vector<std::size_t> rows;
  Ints position(outer, 0);
  for (std::int64_t left = product_of(sizes, 0, outer); left > 0; --left) {
    std::int64_t row = 0;
    for (std::size_t i = 0; i < outer; ++i) row += at(i, position[i]);
    rows.push_back(static_cast<std::size_t>(row));
    for (std::size_t i = outer; i-- > 0;) {
      if (++position[i] < sizes[i]) break;
      position[i] = 0;
    }
  }
  return rows;
}

/// Computes the bytes of outer axes, phases, channels and a sample, and from them the steps of each.
void lay_out_sample(const Call& call, const Last& last, Layout& g) {
  const graph::Window& w = g.window;
  g.phases = static_cast<std::size_t>(last.stride);
  g.phase = (static_cast<std::size_t>(last.reach) + g.phases - 1) / g.phases;
  checked::Size size = checked::multiply(g.phases, g.phase);
  g.steps.resize(last.outer);
  for (std::size_t i = last.outer; i-- > 0;) {
    const std::int64_t reach = w.output[i] > 0 ? (w.output[i] - 1) * w.strides[i] + w.extent(i) : 0;
    if (!size || *size > kMostSample) break;
    g.steps[i] = static_cast<std::int64_t>(*size);
    size = checked::multiply(*size, std::max(w.input[i] + w.begin[i], reach));
  }
  const checked::Size all = size ? checked::multiply(*size, g.channels) : size;
  if (!all || *all > kMostSample) call.fail("its padding takes too much");
  g.channel = *size;
  g.sample = *all;
}

/// Offsets of the weights' bytes from the first byte of a window, in the order of the weights: channel, then
/// tap.
std::vector<std::size_t> terms_of(const Layout& g, const Last& last, std::size_t inputs, std::int64_t taps) {
  const graph::Window& w = g.window;
  std::vector<std::size_t> terms;
  for (std::size_t c = 0; c < inputs; ++c) {
    Ints k(w.axes(), 0);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      auto at = static_cast<std::int64_t>(c * g.channel);
      for (std::size_t i = 0; i < last.outer; ++i) at += k[i] * w.dilations[i] * g.steps[i];
      const std::int64_t column = w.axes() > 0 ? k[last.outer] * last.dilation : 0;
      at += column % last.stride * static_cast<std::int64_t>(g.phase) + column / last.stride;
      terms.push_back(static_cast<std::size_t>(at));
      for (std::size_t i = w.axes(); i-- > 0;) {
        if (++k[i] < w.kernel[i]) break;
        k[i] = 0;
      }
    }
  }
  return terms;
}

Layout layout_of(const Call& call, const Ints& weights, std::size_t groups, const Array& x) {
  const auto outputs = static_cast<std::size_t>(weights[0]), inputs = static_cast<std::size_t>(weights[1]);
  if (x.rank() != static_cast<std::int64_t>(weights.size()) || groups == 0 || outputs % groups != 0 ||
      static_cast<std::size_t>(x.dim(1)) != inputs * groups)
    call.fail("cannot take " + text_of(x) + " and weights " + graph::text_of(weights));
  Layout g{.window = graph::window_of(call.node(), std::span(x.shape()).subspan(2),
                                      {weights.begin() + 2, weights.end()})};
  const graph::Window& w = g.window;
  const Last last = last_of(w);
  g.shape = {x.dim(0), weights[0]};
  g.shape.insert(g.shape.end(), w.output.begin(), w.output.end());
  g.samples = static_cast<std::size_t>(x.dim(0));
  g.channels = inputs * groups;
  g.rows = static_cast<std::size_t>(product_of(w.output, 0, last.outer));
  g.width = static_cast<std::size_t>(last.output);
  g.positions = g.rows * g.width;
  lay_out_sample(call, last, g);

  // The tables below are as long as the padding makes them: they must fit the memory that a run has.
  const std::int64_t taps = product_of(w.kernel, 0, w.axes());
  const checked::Size entries =
      checked::add(checked::add(g.rows, product_of(w.input, 0, last.outer)), checked::multiply(inputs, taps));
  const checked::Size table_bytes = checked::multiply(entries, sizeof(std::size_t));
  if (!table_bytes) call.fail("its padding takes too much");
  metered_memory(*table_bytes);

  g.terms = terms_of(g, last, inputs, taps);
  g.bases = rows_of(w.output, last.outer,
                    [&](std::size_t i, std::int64_t out) { return out * w.strides[i] * g.steps[i]; });
  g.input_width = static_cast<std::size_t>(last.input);
  g.begin = static_cast<std::size_t>(last.begin);
  g.input_rows = rows_of(w.input, last.outer,
                         [&](std::size_t i, std::int64_t in) { return (in + w.begin[i]) * g.steps[i]; });
  g.has_padding = g.channel != g.input_rows.size() * g.input_width;
  return g;
}

/// Copies every step-th byte, minus the offset.
void copy_columns(const std::uint8_t* x, std::size_t step, std::size_t count, std::uint8_t offset,
                  std::uint8_t* to) {
  if (step == 1 && offset == 0) {
    std::memcpy(to, x, count);
  } else if (step == 1) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(x[i] - offset);
  } else if (step == 2) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(x[2 * i] - offset);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(x[i * step] - offset);
  }
}

/// Copies a channel of a sample, [sizes...], into its layout with padding, every code minus the offset.
void lay_out(const Layout& g, const std::uint8_t* x, std::uint8_t padding, std::uint8_t offset,
             std::uint8_t* to) {
  if (g.has_padding) std::memset(to, static_cast<std::uint8_t>(padding - offset), g.channel);
  const std::size_t width = g.input_width, phases = g.phases;
  for (const std::size_t row : g.input_rows) {
    // Column by column of a phase: phase p has the columns p, p + phases, ... of the input.
    for (std::size_t first = 0; first < std::min(phases, width); ++first) {
      const std::size_t column = g.begin + first;
      copy_columns(x + first, phases, (width - first + phases - 1) / phases, offset,
                   to + row + column % phases * g.phase + column / phases);
    }
    x += width;
  }
}

/// Up to kCopied positions of a panel that are neighbours in an output row.
struct Patch {
  std::size_t at = 0, from = 0;
  std::size_t row_left = 0;  ///< positions of the row from there on
};

/// Panels of samples that are laid out one after the other.
class Panels {
 public:
  Panels(const Layout& layout, const std::uint8_t* image, std::size_t samples)
      : g_(layout), image_(image), positions_(samples * layout.positions) {}

  std::size_t count() const { return (positions_ + kPositions - 1) / kPositions; }
  std::size_t positions_of(std::size_t panel) const {
    return std::min(kPositions, positions_ - panel * kPositions);
  }
  static std::size_t groups(const Layout& g) { return integer::groups_of(g.terms.size()); }
  static std::size_t bytes(const Layout& g) { return kPositions * kGroup * groups(g); }

  /// Packs the groups [begin, end) of the terms. `shift` is the offset of the first input channel.
  void pack(std::size_t panel, std::size_t shift, std::size_t begin, std::size_t end,
            std::uint8_t* to) const {
    const std::size_t vectors = integer::vectors_of(positions_of(panel)), all = groups(g_);
    Patch held[kPositions];
    const std::span<const Patch> pieces(held, pieces_of(panel, held));
    const bool in_one_row = pieces[0].row_left >= positions_of(panel);
    // Takes some groups at a time: what was just written in small pieces is slow to read in large ones.
    constexpr std::size_t kTogether = 8;
    std::uint8_t staged[kTogether * kGroup][kPositions + kCopied] = {};
    for (std::size_t first = begin; first < end; first += kTogether) {
      const std::size_t behind = std::min(end, first + kTogether);
      const std::uint8_t* rows[kTogether * kGroup];
      for (std::size_t i = 0; i < (behind - first) * kGroup; ++i) {
        const std::size_t term = first * kGroup + i;
        const std::uint8_t* const from = image_ + shift + g_.terms[term < g_.terms.size() ? term : 0];
        rows[i] = in_one_row ? from + pieces[0].from : staged[i];
        if (in_one_row) continue;
        for (const Patch& piece : pieces) std::memcpy(staged[i] + piece.at, from + piece.from, kCopied);
      }
      for (std::size_t group = first; group < behind; ++group) {
        integer::interleave(rows + (group - first) * kGroup, vectors, to + group * kVectorBytes,
                            all * kVectorBytes);
      }
    }
  }

  /// Calls f(sample, position, at, size) for the runs of a panel's positions, from its position `at` on.
  template <class F>
  void for_runs(std::size_t panel, const F& f) const {
    const std::size_t first = panel * kPositions, count = positions_of(panel);
    for (std::size_t at = 0; at < count;) {
      const std::size_t sample = (first + at) / g_.positions, position = (first + at) % g_.positions;
      const std::size_t size = std::min(count - at, g_.positions - position);
      f(sample, position, at, size);
      at += size;
    }
  }

 private:
  /// Writes to `pieces`, which has room for one piece at each position; returns their number.
  std::size_t pieces_of(std::size_t panel, Patch* pieces) const {
    std::size_t made = 0;
    const std::size_t first = panel * kPositions, count = positions_of(panel);
    for (std::size_t at = 0; at < count; ++made) {
      const std::size_t row = (first + at) / g_.width, column = (first + at) % g_.width;
      const std::size_t left = g_.width - column;
      pieces[made] = {at, row / g_.rows * g_.sample + g_.bases[row % g_.rows] + column, left};
      at += std::min(kCopied, left);
    }
    return made;
  }

  const Layout& g_;
  const std::uint8_t* image_;
  std::size_t positions_;
};

class ByteConvolution {
 public:
  explicit ByteConvolution(const NodeFacts& facts)
      : weights_(*facts.constant(1)),
        shape_(facts.node.ints_or("weight_shape", {})),
        groups_(static_cast<std::size_t>(facts.int_or("group", 1))),
        zero_(static_cast<int>(facts.int_or("zero", 0))) {
    const auto least = static_cast<int>(facts.int_or("least", 0)),
               most = static_cast<int>(facts.int_or("most", 255));
    const auto bytes = integer::bytes_of(least, most, zero_);
    const checked::Size size =
        shape_.size() < 2 ? checked::Size() : checked::product(std::span<const std::int64_t>(shape_));
    const std::size_t outputs = size ? static_cast<std::size_t>(shape_[0]) : 0;
    width_ = size && outputs > 0 ? integer::groups_of(*size / outputs) * kGroup : 0;
    if (!size || least > most || !bytes || weights_.size() != outputs * width_)
      facts.fail("it is no convolution of bytes");
    offset_ = bytes->offset;
    const auto rows = weights_.values<std::int8_t>();
    starts_ = integer::starts_of(rows, width_ / kGroup, zero_ - offset_, outputs);
    way_ = integer::way_of(rows, width_ / kGroup, bytes->most);
    finish_ = Finish::of(facts, outputs);
  }

  void run(Call& call, ByShape<Layout>& known) const {
    const Array x = call.in(0);
    with_codes(call, x, []<class T>() {});
    const auto grid = known.of(x.shape(), [&] { return layout_of(call, shape_, groups_, x); });
    const Layout& g = *grid;
    Array& made = call.make(0, finish_.type(), g.shape);
    if (made.size() == 0) return;
    call.spend({made.size(), g.terms.size()});
    const bool slides = shape_[1] == 1 && groups_ > 1;
    const int threads = threads_for(call, made.size() * g.terms.size() * (slides ? kSlideCost : 1));
    const std::size_t wanted =
        std::min((kPositionsWanted + g.positions - 1) / g.positions,
                 std::max<std::size_t>(1, kImageBytes / std::max<std::size_t>(g.sample, 1)));
    const std::size_t together = std::clamp<std::size_t>(wanted, 1, g.samples);
    // Counts the bytes whatever the padding; copies of kCopied bytes may read behind the last one.
    Array image(ElementType::kUint8, {static_cast<std::int64_t>(together * g.sample + kPositions + kCopied)});
    const auto bytes = image.writable<std::uint8_t>();
    std::fill(bytes.end() - (kPositions + kCopied), bytes.end(), std::uint8_t{0});
    const auto* const from = reinterpret_cast<const std::uint8_t*>(x.data());
    const std::size_t plane = x.size() / (g.samples * g.channels);
    for (std::size_t n = 0; n < g.samples; n += together) {
      const std::size_t samples = std::min(together, g.samples - n), planes = samples * g.channels;
      parallel_for(planes, std::max<std::size_t>(1, kLayOutAtOnce / g.channel), threads,
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i)
                       lay_out(g, from + (n * g.channels + i) * plane, static_cast<std::uint8_t>(zero_),
                               static_cast<std::uint8_t>(offset_), bytes.data() + i * g.channel);
                   });
      if (slides) {
        slide(g, bytes.data(), n, samples, threads, made);
      } else {
        multiply(g, Panels(g, bytes.data(), samples), n, threads, made);
      }
    }
  }

 private:
  /// For groups of one channel: windows slide over it, output row by output row.
  void slide(const Layout& g, const std::uint8_t* image, std::size_t n, std::size_t samples, int threads,
             Array& made) const {
    const auto outputs = static_cast<std::size_t>(shape_[0]);
    parallel_for(samples * outputs, std::max<std::size_t>(1, kSlideAtOnce / (g.positions * g.terms.size())),
                 threads, [&](std::size_t begin, std::size_t end) {
                   std::vector<std::int32_t> sums(g.positions + integer::kSlack);
                   for (std::size_t i = begin; i < end; ++i) {
                     const std::size_t output = i % outputs;
                     const std::uint8_t* const channel =
                         image + i / outputs * g.sample + output / own() * g.channel;
                     for (std::size_t row = 0; row < g.rows; ++row) {
                       integer::slide({.x = channel + g.bases[row],
                                       .offsets = g.terms.data(),
                                       .weights = weights_.values<std::int8_t>().data() + output * width_,
                                       .terms = g.terms.size(),
                                       .start = starts_[output]},
                                      sums.data() + row * g.width, g.width);
                     }
                     finish_.put(integer::Channels::kOne, output, {sums.data(), g.positions}, made,
                                 (n * outputs + i) * g.positions);
                   }
                 });
  }

  std::size_t own() const { return static_cast<std::size_t>(shape_[0]) / groups_; }
  std::size_t outputs_of_block() const {
    return way_.kind == integer::Way::Kind::kTiles ? kMostOutputsOfBlock : kOutputsOfBlock;
  }

  void multiply(const Layout& g, const Panels& panels, std::size_t n, int threads, Array& made) const {
    const std::size_t items = panels.count() * groups_, terms = Panels::groups(g), size = Panels::bytes(g);
    const auto workers = static_cast<std::size_t>(std::max(threads, 1));
    const std::size_t blocks = (own() + outputs_of_block() - 1) / outputs_of_block();
    const auto shift = [&](std::size_t item) { return item % groups_ * (g.channels / groups_) * g.channel; };
    if (workers > 1 && items < 4 * workers && blocks > 1) {
      // There are so few panels that threads share each.
      const auto held = std::make_unique_for_overwrite<std::uint8_t[]>(items * size);
      parallel_for(items * workers, 1, threads, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const std::size_t item = i / workers, part = i % workers;
          panels.pack(item / groups_, shift(item), terms * part / workers, terms * (part + 1) / workers,
                      held.get() + item * size);
        }
      });
      parallel_for(items * blocks, 1, threads, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
          multiply(g, panels, i / blocks, i % blocks, i % blocks + 1, held.get() + i / blocks * size, n,
                   made);
      });
      return;
    }
    const std::size_t grain = std::max<std::size_t>(1, items / (4 * workers));
    parallel_for(items, workers == 1 ? items : grain, threads, [&](std::size_t begin, std::size_t end) {
      const auto panel = std::make_unique_for_overwrite<std::uint8_t[]>(size);
      for (std::size_t item = begin; item < end; ++item) {
        panels.pack(item / groups_, shift(item), 0, terms, panel.get());
        multiply(g, panels, item, 0, blocks, panel.get(), n, made);
      }
    });
  }

  /// Multiplies the blocks [begin, end) of the rows of the item's group with its panel.
  void multiply(const Layout& g, const Panels& panels, std::size_t item, std::size_t begin, std::size_t end,
                const std::uint8_t* panel, std::size_t n, Array& made) const {
    alignas(64) std::int32_t sums[kMostOutputsOfBlock * kPositions];
    const std::size_t at = item / groups_, group = item % groups_;
    const auto outputs = static_cast<std::size_t>(shape_[0]);
    for (std::size_t block = begin; block < end; ++block) {
      const std::size_t first = group * own() + block * outputs_of_block();
      const std::size_t count = std::min(outputs_of_block(), (group + 1) * own() - first);
      integer::multiply_bytes(way_, integer::InVectors::kCodes,
                              {.rows = count,
                               .vectors = integer::vectors_of(panels.positions_of(at)),
                               .groups = width_ / kGroup,
                               .row = weights_.data() + first * width_,
                               .row_stride = width_,
                               .vector = reinterpret_cast<const std::byte*>(panel),
                               .start = starts_.data() + first,
                               .y = sums,
                               .y_stride = kPositions});
      panels.for_runs(at, [&](std::size_t sample, std::size_t position, std::size_t from, std::size_t size) {
        for (std::size_t r = 0; r < count; ++r) {
          finish_.put(integer::Channels::kOne, first + r, {sums + r * kPositions + from, size}, made,
                      ((n + sample) * outputs + first + r) * g.positions + position);
        }
      });
    }
  }

  Array weights_;  ///< [outputs, width]
  Ints shape_;     ///< of the weights in the file's order
  std::size_t groups_ = 1, width_ = 0;
  int zero_ = 0, offset_ = 0;
  std::vector<std::int32_t> starts_;
  integer::Way way_;
  Finish finish_;
};

}  // namespace

Kernel byte_convolution(const NodeFacts& facts) {
  return [layer = std::make_shared<const ByteConvolution>(facts),
          known = std::make_shared<ByShape<Layout>>()](Call& call) { layer->run(call, *known); };
}

}  // namespace crumb::runtime
