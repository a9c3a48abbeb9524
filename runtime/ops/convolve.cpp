#include "runtime/ops/convolve.h"

#include <algorithm>

#include "base/threads/parallel.h"
#include "runtime/exact/products.h"
#include "runtime/exact/term_products.h"
#include "runtime/ops/spread_image.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kWidth = 64;                      // positions of the largest tile
constexpr std::size_t kLaidOut = std::size_t{1} << 16;  // floats of windows that are laid out at a time
constexpr std::size_t kSpread = std::size_t{1} << 17;   // floats of a spread image that are welcome
constexpr double kMostSpread = 1 << 22;                 // and that are accepted
constexpr std::size_t kFewOutputs = 8;  // for so many, laying windows out takes longer than their products
constexpr std::size_t kFewTerms = 48;
constexpr std::size_t kJobsOfThread = 8;  // more share unevenly busy processors
constexpr std::size_t kLeastOutputs = 6;  // of a job: a tile's

std::size_t ceil_of(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// Jobs of a layer: pieces of positions, of outputs, samples and groups, from the outermost on.
struct Jobs {
  std::size_t pieces = 1, parts = 1, samples = 1, groups = 1;
  std::size_t count() const { return pieces * parts * samples * groups; }
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
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t grain = workers == 1 ? jobs.count() : ceil_of(jobs.count(), workers * kJobsOfThread);
  parallel_for(jobs.count(), grain, threads, body);
}

/// The products of a job, where x and its form are not yet known.
exact::TermProducts products_of(const ConvolutionLayer& layer, const ConvolutionOperands& operands,
                                const Job& job, std::size_t positions) {
  const std::size_t channel = job.group * layer.outputs + job.first;
  const std::size_t channels = layer.groups * layer.outputs;
  return {.outputs = job.outputs,
          .terms = layer.terms,
          .w = operands.w + channel * layer.terms,
          .w_stride = layer.terms,
          .bias = operands.bias ? operands.bias + channel : nullptr,
          .y = operands.y + (job.sample * channels + channel) * positions,
          .y_stride = positions};
}

const float* input_of(const ConvolutionLayer& layer, const ConvolutionOperands& operands, const Job& job) {
  return operands.x + (job.sample * layer.groups + job.group) * layer.inputs * layer.windows.elements();
}

/// With windows laid out term by term, those of a partial sum behind each other.
void convolve_laid_out(const ConvolutionLayer& layer, const ConvolutionOperands& operands, int threads) {
  const std::size_t positions = layer.windows.positions();
  const std::size_t wanted = kLaidOut / std::max<std::size_t>(layer.terms, 1);
  const std::size_t width = std::min(positions, std::max(wanted / kWidth, std::size_t{1}) * kWidth);
  std::vector<std::size_t> offsets(layer.terms);
  const std::size_t behind = ceil_of(layer.terms, exact::kPartialSums);
  for (std::size_t k = 0; k < layer.terms; ++k)
    offsets[k] = (k % exact::kPartialSums * behind + k / exact::kPartialSums) * width;
  Jobs jobs{.pieces = ceil_of(positions, width), .samples = operands.samples, .groups = layer.groups};
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  jobs.parts = std::clamp<std::size_t>(workers / jobs.count(), 1, ceil_of(layer.outputs, kLeastOutputs));
  for_jobs(jobs, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch scratch;
    float* const terms = scratch.of(exact::kPartialSums * behind * width);
    for (std::size_t i = begin; i < end; ++i) {
      const Job job(jobs, layer, i);
      const std::size_t first = job.piece * width, last = std::min(positions, first + width);
      exact::TermProducts products = products_of(layer, operands, job, positions);
      lay_out(layer.windows, input_of(layer, operands, job), layer.inputs, first, last, offsets.data(),
              terms);
      products.positions = last - first;
      products.x = terms;
      products.x_offsets = offsets.data();
      products.y += first;
      exact::multiply_terms(products);
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
  explicit SpreadLines(const SpreadPiece& piece) : image_(piece.image), sizes_(piece.windows.output) {
    const std::size_t last = sizes_.size() - 1;
    width_ = static_cast<std::size_t>(sizes_[last]);
    if (last == 0) return;
    lines_ = static_cast<std::size_t>(sizes_[last - 1]);
    step_ = piece.image.step(last - 1);
    for (std::size_t i = 0; i + 1 < last; ++i) planes_ *= static_cast<std::size_t>(sizes_[i]);
    const std::size_t vectors = ceil_of(width_, kVector) * lines_;
    is_joined_ = lines_ > 1 && ceil_of(joined(), kVector) * kJoinedWorth < vectors * kWorth;
  }

  std::size_t room(std::size_t outputs) const { return is_joined_ ? outputs * joined() : 0; }

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
  static constexpr std::size_t kVector = 16, kJoinedWorth = 5, kWorth = 4;  // copies take a fifth

  std::size_t joined() const { return (lines_ - 1) * step_ + width_; }

  void multiply_lines(exact::TermProducts p) const {
    p.lines = lines_;
    p.positions = p.y_line = width_;
    p.x_line = step_;
    exact::multiply_terms(p);
  }

  void multiply_joined(exact::TermProducts p, float* room) const {
    float* const y = p.y;
    const std::size_t y_stride = p.y_stride;
    p.positions = p.y_stride = joined();
    p.y = room;
    exact::multiply_terms(p);
    for (std::size_t n = 0; n < p.outputs; ++n)
      for (std::size_t line = 0; line < lines_; ++line)
        std::copy_n(room + n * joined() + line * step_, width_, y + n * y_stride + line * width_);
  }

  const SpreadImage& image_;
  const Ints& sizes_;
  std::size_t width_ = 0, lines_ = 1, step_ = 0, planes_ = 1;
  bool is_joined_ = false;
};

/// Floats of the spread image of all windows, at most.
double spread_size(const ConvolutionLayer& layer) {
  const Windows& w = layer.windows;
  auto size = static_cast<double>(layer.inputs);
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const auto reach = static_cast<double>(w.kernel[i] - 1) * static_cast<double>(w.dilations[i]);
    const auto stride = static_cast<double>(w.strides[i]);
    size *= std::min(stride, static_cast<double>(w.kernel[i])) *
            (static_cast<double>(w.output[i]) + reach / stride);
  }
  return size;
}

/// The outputs of axis 0 in pieces, so that an image stays in the second cache and every thread has work.
std::vector<SpreadPiece> pieces_of(const ConvolutionLayer& layer, std::size_t others, std::size_t workers) {
  const Windows& w = layer.windows;
  const auto rows = static_cast<std::size_t>(w.output[0]);
  const std::size_t row = w.positions() / rows;
  const auto images = static_cast<std::size_t>(spread_size(layer)) / kSpread + 1;
  const bool is_image = SpreadImage(w, layer.inputs).is_image();
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
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  Jobs jobs{.samples = operands.samples, .groups = layer.groups};
  const std::vector<SpreadPiece> pieces = pieces_of(layer, jobs.count(), workers);
  jobs.pieces = pieces.size();
  jobs.parts = std::clamp<std::size_t>(workers / jobs.count(), 1, ceil_of(layer.outputs, kLeastOutputs));
  for_jobs(jobs, threads, [&](std::size_t begin, std::size_t end) {
    thread_local Scratch image, room;
    float* to = nullptr;
    std::size_t filled = pieces.size();  // with the padding of this piece
    for (std::size_t i = begin; i < end; ++i) {
      const Job job(jobs, layer, i);
      const SpreadPiece& piece = pieces[job.piece];
      exact::TermProducts products = products_of(layer, operands, job, positions);
      products.x = input_of(layer, operands, job);
      products.x_offsets = piece.image.offsets().data();
      products.y += piece.first;
      if (!piece.image.is_image()) {
        if (filled != job.piece) {
          to = image.of(piece.image.size());
          std::fill_n(to, piece.image.size(), 0.0F);
          filled = job.piece;
        }
        piece.image.write(products.x, to);
        products.x = to;
      }
      const SpreadLines lines(piece);
      lines.multiply(products, room.of(lines.room(job.outputs)));
    }
  });
}

bool may_spread(const ConvolutionLayer& layer) {
  return !layer.windows.transposed && layer.terms > 0 && spread_size(layer) <= kMostSpread;
}

/// Whether writing the windows would take long beside the products.
bool is_spread_fastest(const ConvolutionLayer& layer) {
  return layer.outputs <= kFewOutputs || layer.terms <= kFewTerms ||
         (layer.windows.taps() == 1 && SpreadImage(layer.windows, layer.inputs).is_image());
}

}  // namespace

void convolve(const ConvolutionLayer& given, const ConvolutionOperands& operands, int threads,
              WindowsAre how) {
  if (given.outputs == 0 || given.groups == 0 || operands.samples == 0 || given.windows.positions() == 0)
    return;
  ConvolutionLayer layer = given;
  layer.windows = given.windows.transposed ? given.windows : given.windows.on_fewer_axes();
  const bool is_spread = how != WindowsAre::kLaidOut && may_spread(layer) &&
                         (how == WindowsAre::kSpread || is_spread_fastest(layer));
  is_spread ? convolve_spread(layer, operands, threads) : convolve_laid_out(layer, operands, threads);
}

}  // namespace crumb::runtime
