#include "runtime/ops/convolve.h"

#include <algorithm>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"
#include "runtime/ops/spread_image.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kWidth = 64;                      // positions of the largest tile
constexpr std::size_t kLaidOut = std::size_t{1} << 13;  // floats of windows that are laid out at a time
constexpr std::size_t kSpread = std::size_t{1} << 17;   // floats of a spread image that are welcome
constexpr double kMostSpread = 1 << 22;                 // and that are accepted
constexpr std::size_t kFewOutputs = 8;     // for so many, laying windows out takes longer than their products
constexpr std::size_t kManyOutputs = 128;  // for so many, it takes little beside them
constexpr std::size_t kFewTerms = 48, kFewInputs = 16;
constexpr std::int64_t kNarrow = 16;
constexpr std::size_t kManyTerms = 256, kManyPositions = 512;  // for which packed weights pay
constexpr std::size_t kJobsOfThread = 8;                       // more share unevenly busy processors
constexpr std::size_t kLeastOutputs = 6;                       // of a job: a tile's

std::size_t ceil_of(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

std::size_t workers_of(int threads) {
  return static_cast<std::size_t>(threads > 0 ? threads : default_threads());
}

/// Jobs of a layer: pieces of positions, of outputs, samples and groups, from the outermost on.
struct Jobs {
  std::size_t pieces = 1, parts = 1, samples = 1, groups = 1;
  std::size_t count() const { return pieces * parts * samples * groups; }

  /// Gives every thread a job, as far as outputs are enough.
  void divide_outputs(const ConvolutionLayer& layer, int threads) {
    const std::size_t most = ceil_of(layer.outputs, kLeastOutputs);
    parts = std::clamp<std::size_t>(ceil_of(workers_of(threads), count()), 1, most);
  }
};

/// One job: outputs [first, first + outputs) of a group.
struct Job {
  std::size_t piece, sample, group, first, outputs;
  Job(const Jobs& jobs, const ConvolutionLayer& layer, std::size_t i) {
    group = i % jobs.groups;
    sample = i / jobs.groups % jobs.samples;
    const std::size_t part = i / jobs.groups / jobs.samples % jobs.parts;
    piece = i / jobs.groups / jobs.samples / jobs.parts;
    first = part * layer.outputs / jobs.parts;
    outputs = (part + 1) * layer.outputs / jobs.parts - first;
  }
};

/// Calls body(begin, end) for runs of jobs.
void for_jobs(const Jobs& jobs, int threads, const std::function<void(std::size_t, std::size_t)>& body) {
  const std::size_t workers = workers_of(threads);
  const std::size_t grain = workers == 1 ? jobs.count() : ceil_of(jobs.count(), workers * kJobsOfThread);
  parallel_for(jobs.count(), grain, threads, body);
}

/// The products of a job, where x and its form are not yet known.
exact::TermProducts products_of(const ConvolutionLayer& layer, const ConvolutionOperands& operands,
                                const float* packed, const Job& job, std::size_t positions) {
  const std::size_t channel = job.group * layer.outputs + job.first;
  const std::size_t channels = layer.groups * layer.outputs;
  exact::TermsThen then = operands.then;
  if (then.slopes) then.slopes += channel * then.slopes_step;
  return {.outputs = job.outputs,
          .terms = layer.terms,
          .w = operands.w + channel * layer.terms,
          .w_stride = layer.terms,
          .packed = packed ? packed + channel * layer.terms : nullptr,
          .bias = operands.bias ? operands.bias + channel : nullptr,
          .then = then,
          .y = operands.y + (job.sample * channels + channel) * positions,
          .y_stride = positions};
}

/// The weights packed for the outputs of each job; none where that takes longer than it saves.
std::vector<float> packed_weights(const ConvolutionLayer& layer, const ConvolutionOperands& operands,
                                  const Jobs& jobs) {
  std::vector<float> packed;
  const std::size_t positions = operands.samples * layer.windows.positions();
  if (layer.terms < kManyTerms || positions < kManyPositions) return packed;
  packed.resize(layer.groups * layer.outputs * layer.terms);
  const Jobs of_one_sample{.parts = jobs.parts, .groups = jobs.groups};
  for (std::size_t i = 0; i < of_one_sample.count(); ++i) {
    const Job job(of_one_sample, layer, i);
    const std::size_t at = (job.group * layer.outputs + job.first) * layer.terms;
    exact::pack_terms(operands.w + at, layer.terms, job.outputs, layer.terms, packed.data() + at);
  }
  return packed;
}

const float* input_of(const ConvolutionLayer& layer, const ConvolutionOperands& operands, const Job& job) {
  return operands.x + (job.sample * layer.groups + job.group) * layer.inputs * layer.windows.elements();
}

/// Positions [first, end) of all samples' outputs, one sample's behind the other's.
class LaidOutPositions {
 public:
  LaidOutPositions(const ConvolutionLayer& layer, std::size_t first, std::size_t end)
      : layer_(layer), each_(layer.windows.positions()), first_(first), end_(end) {}

  /// Writes the windows of x, which is [samples, channels, input...], of which the group takes some.
  void lay(const float* x, const std::size_t* offsets, float* to) const {
    const std::size_t sample = layer_.groups * layer_.inputs * layer_.windows.elements();
    for_samples([&](std::size_t n, std::size_t begin, std::size_t end, std::size_t at) {
      lay_out(layer_.windows, x + n * sample, layer_.inputs, begin, end, offsets, to + at);
    });
  }

  /// Where y lies apart, by sample, results go through `room`, which has so many floats.
  bool is_apart() const { return end_ > first_ && first_ / each_ != (end_ - 1) / each_; }

  /// p has its outputs, and in y those of sample 0.
  void multiply(exact::TermProducts p, float* room) const {
    const std::size_t sample = layer_.groups * layer_.outputs * each_;
    float* const y = p.y;
    p.positions = end_ - first_;
    if (!is_apart()) {
      p.y += first_ / each_ * sample + first_ % each_;
      return exact::multiply_terms(p);
    }
    p.y = room;
    p.y_stride = p.positions;
    exact::multiply_terms(p);
    for_samples([&](std::size_t n, std::size_t begin, std::size_t end, std::size_t at) {
      for (std::size_t output = 0; output < p.outputs; ++output)
        std::copy_n(room + output * p.positions + at, end - begin, y + n * sample + output * each_ + begin);
    });
  }

 private:
  /// f(sample, first position, end, positions before these).
  template <class F>
  void for_samples(const F& f) const {
    for (std::size_t at = first_; at < end_;) {
      const std::size_t n = at / each_, end = std::min(end_, (n + 1) * each_);
      f(n, at - n * each_, end - n * each_, at - first_);
      at = end;
    }
  }

  const ConvolutionLayer& layer_;
  std::size_t each_, first_, end_;
};

/// With windows laid out term by term, those of a partial sum behind each other.
void convolve_laid_out(const ConvolutionLayer& layer, const ConvolutionOperands& operands, int threads) {
  const std::size_t each = layer.windows.positions(), positions = operands.samples * each;
  const std::size_t wanted = kLaidOut / std::max<std::size_t>(layer.terms, 1);
  const std::size_t width = std::min(positions, std::max(wanted / kWidth, std::size_t{1}) * kWidth);
  std::vector<std::size_t> offsets(layer.terms), in_order(layer.terms);
  for (std::size_t k = 0; k < layer.terms; ++k) {
    in_order[k] = k * width;
    offsets[k] = exact::place_of_term(k, layer.terms) * width;
  }
  Jobs jobs{.pieces = ceil_of(positions, width), .groups = layer.groups};
  jobs.divide_outputs(layer, threads);
  const std::vector<float> packed = packed_weights(layer, operands, jobs);
  for_jobs(jobs, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch windows, room;
    float* const terms = windows.of(layer.terms * width + exact::kTermRoom);
    for (std::size_t i = begin; i < end; ++i) {
      const Job job(jobs, layer, i);
      const std::size_t first = job.piece * width;
      const LaidOutPositions some(layer, first, std::min(positions, first + width));
      some.lay(input_of(layer, operands, job), offsets.data(), terms);
      exact::TermProducts products = products_of(layer, operands, packed.data(), job, each);
      products.x = terms;
      products.x_has_room = true;
      products.x_offsets = in_order.data();
      some.multiply(products, room.of(some.is_apart() ? job.outputs * width : 0));
    }
  });
}

/// Outputs [first, first + ...) of axis 0, and the image that their terms are runs of.
struct SpreadPiece {
  Windows windows;
  std::size_t first;  ///< position of the output
  SpreadImage image;
};

/// All lines of a piece's outputs: those along the last axis, of one axis more in one call. Narrow lines are
/// computed as one, with what is between them, and copied out of `room`.
class SpreadLines {
 public:
  /// `terms`: of an output; where there are many, copying it takes little beside them.
  SpreadLines(const SpreadPiece& piece, std::size_t terms)
      : image_(piece.image), sizes_(piece.windows.output) {
    const std::size_t last = sizes_.size() - 1;
    width_ = static_cast<std::size_t>(sizes_[last]);
    if (last == 0) return;
    lines_ = static_cast<std::size_t>(sizes_[last - 1]);
    step_ = piece.image.step(last - 1);
    for (std::size_t i = 0; i + 1 < last; ++i) planes_ *= static_cast<std::size_t>(sizes_[i]);
    const std::size_t vectors = ceil_of(width_, kVector) * lines_;
    is_joined_ = lines_ > 1 && ceil_of(joined(lines_), kVector) * (terms + kCopy) < vectors * terms;
  }

  std::size_t room(std::size_t outputs) const {
    return is_joined_ ? outputs * joined(lines_at_once(outputs)) : 0;
  }

  /// p.x is where the first output's terms are counted from, p.y its place.
  void multiply(exact::TermProducts p, float* room) const {
    const float* const x = p.x;
    for (std::size_t plane = 0; plane < planes_; ++plane, p.y += lines_ * width_) {
      std::size_t rest = plane;
      p.x = x;
      for (std::size_t i = sizes_.size() - std::min<std::size_t>(sizes_.size(), 2); i-- > 0;) {
        const auto size = static_cast<std::size_t>(sizes_[i]);
        p.x += rest % size * image_.step(i);
        rest /= size;
      }
      is_joined_ ? multiply_joined(p, room) : multiply_lines(p);
    }
  }

 private:
  static constexpr std::size_t kVector = 16;
  static constexpr std::size_t kRoom = std::size_t{1}
                                       << 15;  // floats of joined lines, so that caches keep them
  static constexpr std::size_t kCopy = 4;      // terms that take as long as copying an output

  std::size_t joined(std::size_t lines) const { return (lines - 1) * step_ + width_; }
  std::size_t lines_at_once(std::size_t outputs) const {
    return std::clamp<std::size_t>(kRoom / (outputs * step_), 1, lines_);
  }

  void multiply_lines(exact::TermProducts p) const {
    p.lines = lines_;
    p.positions = p.y_line = width_;
    p.x_line = step_;
    exact::multiply_terms(p);
  }

  void multiply_joined(exact::TermProducts p, float* room) const {
    float* const y = p.y;
    const float* const x = p.x;
    const std::size_t y_stride = p.y_stride, most = lines_at_once(p.outputs);
    p.y = room;
    for (std::size_t first = 0; first < lines_; first += most) {
      const std::size_t lines = std::min(most, lines_ - first);
      p.x = x + first * step_;
      p.positions = p.y_stride = joined(lines);
      exact::multiply_terms(p);
      for (std::size_t n = 0; n < p.outputs; ++n)
        for (std::size_t line = 0; line < lines; ++line)
          std::copy_n(room + n * p.y_stride + line * step_, width_,
                      y + n * y_stride + (first + line) * width_);
    }
  }

  const SpreadImage& image_;
  const Ints& sizes_;
  std::size_t width_ = 0, lines_ = 1, step_ = 0, planes_ = 1;
  bool is_joined_ = false;
};

/// Floats of the spread image of `rows` outputs of axis 0, at most.
double spread_size(const ConvolutionLayer& layer, std::int64_t rows) {
  const Windows& w = layer.windows;
  auto size = static_cast<double>(layer.inputs);
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const auto reach = static_cast<double>(w.kernel[i] - 1) * static_cast<double>(w.dilations[i]);
    const auto stride = static_cast<double>(w.strides[i]);
    size *= std::min(stride, static_cast<double>(w.kernel[i])) *
            (static_cast<double>(i == 0 ? rows : w.output[i]) + reach / stride);
  }
  return size;
}

/// The outputs of axis 0 in pieces, so that an image stays in the second cache and every thread has work.
std::vector<SpreadPiece> pieces_of(const ConvolutionLayer& layer, std::size_t others, std::size_t workers) {
  const Windows& w = layer.windows;
  const auto rows = static_cast<std::size_t>(w.output[0]);
  const std::size_t row = w.positions() / rows;
  const auto images = static_cast<std::size_t>(spread_size(layer, w.output[0])) / kSpread + 1;
  const bool is_image = SpreadImage::is_image(w);
  std::size_t count = std::min(rows, std::max(is_image ? 1 : images, ceil_of(workers, others)));
  std::size_t step = ceil_of(rows, count);
  if (row == 1) step = ceil_of(step, kWidth) * kWidth;
  std::vector<SpreadPiece> pieces;
  for (std::size_t first = 0; first < rows; first += step) {
    const auto taken = static_cast<std::int64_t>(std::min(step, rows - first));
    const Windows part = w.part(static_cast<std::int64_t>(first), taken);
    pieces.push_back({part, first * row, SpreadImage(part, layer.inputs)});
  }
  return pieces;
}

void convolve_spread(const ConvolutionLayer& layer, const ConvolutionOperands& operands, int threads) {
  const std::size_t positions = layer.windows.positions();
  Jobs jobs{.samples = operands.samples, .groups = layer.groups};
  const std::vector<SpreadPiece> pieces = pieces_of(layer, jobs.count(), workers_of(threads));
  jobs.pieces = pieces.size();
  jobs.divide_outputs(layer, threads);
  const std::vector<float> packed = packed_weights(layer, operands, jobs);
  for_jobs(jobs, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch image, room;
    float* to = nullptr;
    std::size_t filled = pieces.size();  // with the padding of this piece
    for (std::size_t i = begin; i < end; ++i) {
      const Job job(jobs, layer, i);
      const SpreadPiece& piece = pieces[job.piece];
      exact::TermProducts products = products_of(layer, operands, packed.data(), job, positions);
      products.x = input_of(layer, operands, job);
      products.x_offsets = piece.image.offsets().data();
      products.y += piece.first;
      if (!piece.image.is_image()) {
        if (filled != job.piece) {
          to = image.of(piece.image.size() + exact::kTermRoom);
          std::fill_n(to, piece.image.size(), 0.0F);
          filled = job.piece;
        }
        piece.image.write(products.x, to);
        products.x = to;
        products.x_has_room = true;
      }
      const SpreadLines lines(piece, layer.terms);
      lines.multiply(products, room.of(lines.room(job.outputs)));
    }
  });
}

bool may_spread(const ConvolutionLayer& layer) {
  if (layer.terms == 0) return false;
  const std::int64_t rows = std::min<std::int64_t>(layer.windows.output[0], kWidth);
  return spread_size(layer, layer.windows.axes() > 1 ? 1 : rows) <= kMostSpread;
}

/// Whether writing the windows would take longer. They are read once for every tile of outputs, and lie
/// beside each other; runs of an image begin anywhere in cache lines, and those of large channels displace
/// each other.
bool is_spread_fastest(const ConvolutionLayer& layer) {
  const Windows& w = layer.windows;
  if (layer.outputs <= kFewOutputs) return true;
  if (w.taps() == 1) return layer.terms <= kFewInputs;
  if (layer.outputs > kManyOutputs) return false;
  if (layer.terms <= kFewTerms) return true;
  if (w.axes() == 1 && w.output[0] < kNarrow) return false;
  return std::ranges::all_of(w.strides, [](std::int64_t stride) { return stride <= 2; });
}

}  // namespace

void convolve(const ConvolutionLayer& given, const ConvolutionOperands& operands, int threads,
              WindowsAre how) {
  if (given.outputs == 0 || given.groups == 0 || operands.samples == 0 || given.windows.positions() == 0)
    return;
  ConvolutionLayer layer = given;
  layer.windows = given.windows.on_fewer_axes();
  const bool is_spread = how != WindowsAre::kLaidOut && may_spread(layer) &&
                         (how == WindowsAre::kSpread || is_spread_fastest(layer));
  is_spread ? convolve_spread(layer, operands, threads) : convolve_laid_out(layer, operands, threads);
}

}  // namespace crumb::runtime
