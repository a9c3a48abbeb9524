#include "runtime/ops/transposed.h"

#include <algorithm>
#include <cmath>

#include "base/threads/parallel.h"
#include "runtime/ops/interleave.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/spread_image.h"
#include "runtime/phase_taps.h"
#include "runtime/scratch.h"

namespace crumb::runtime {
namespace {

using exact::kPartialSums;

constexpr double kMostPhases = 1024;       // beyond, layers are computed by the definition
constexpr double kMostSpare = 4;           // terms of all phases together, for each tap
constexpr std::size_t kResultVector = 16;  // positions of a vector
constexpr std::size_t kTileWindows = 64;   // of the largest tile; twice as many where there are few outputs
constexpr std::size_t kHeldResults = 24;   // of which results are held at a time
constexpr std::size_t kResultRoom = std::size_t{1} << 15;     // floats of results that are held
constexpr std::size_t kLeastWindows = 256;                    // for which weights are read
constexpr std::size_t kTermsOfPhases = std::size_t{1} << 14;  // floats of an image for all phases, in turn
constexpr std::size_t kLaidOutTerms = std::size_t{1} << 13;   // floats of terms that are laid out
constexpr std::size_t kPhaseImage = std::size_t{1} << 17;     // floats of an image that are welcome
constexpr double kMostPhaseImage = 1 << 22;                   // and that are accepted
constexpr std::size_t kManyPhaseOutputs = 128;  // of all phases, beside which laying terms out takes little

std::size_t divided_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

std::int64_t divided_down(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

std::size_t elements_of(const Ints& sizes) {
  return static_cast<std::size_t>(product_of(sizes, 0, sizes.size()));
}

}  // namespace

std::size_t TransposedLayer::taps() const { return elements_of(kernel); }

void transposed_ref(const TransposedLayer& layer, const TransposedSizes& sizes,
                    const TransposedOperands& operands, const float* w) {
  const std::size_t taps = layer.taps(), elements = elements_of(sizes.input),
                    positions = elements_of(sizes.output);
  const std::size_t channels = layer.groups * layer.outputs, axes = layer.kernel.size();
  if (positions == 0 || taps == 0) return;
  struct Met {
    std::size_t tap;
    std::int64_t element;  ///< -1: beyond the input
  };
  std::vector<Met> met;
  Ints out(axes, 0);
  for (std::size_t at = 0; at < positions; ++at, next_index(out, sizes.output)) {
    met.clear();
    Ints k(axes, 0);
    for (std::size_t tap = 0; tap < taps; ++tap, next_index(k, layer.kernel)) {
      std::int64_t element = 0;
      bool meets = true;
      for (std::size_t i = 0; i < axes && meets; ++i) {
        const std::int64_t from = out[i] + sizes.begin[i] - k[i] * layer.dilations[i];
        meets = from % layer.strides[i] == 0;
        const std::int64_t place = from / layer.strides[i];
        element = element < 0 || place < 0 || place >= sizes.input[i] ? -1 : element * sizes.input[i] + place;
      }
      if (meets) met.push_back({tap, element});
    }
    for (std::size_t c = 0; c < sizes.samples * channels; ++c) {
      const std::size_t channel = c % channels, group = channel / layer.outputs, sample = c / channels;
      float partial[kPartialSums] = {};
      for (std::size_t input = 0; input < layer.inputs; ++input) {
        const std::size_t from = group * layer.inputs + input;
        const float* const x = operands.x + (sample * layer.groups * layer.inputs + from) * elements;
        const float* const weights = w + (from * layer.outputs + channel % layer.outputs) * taps;
        for (const Met& m : met) {
          float& sum = partial[(input * taps + m.tap) % kPartialSums];
          sum = std::fma(m.element < 0 ? 0.0F : x[m.element], weights[m.tap], sum);
        }
      }
      float y = exact::fold(partial);
      if (operands.bias) y += operands.bias[channel];
      operands.y[c * positions + at] = y;
    }
  }
}

Transposed::Transposed(const TransposedLayer& layer, const float* w) : layer_(layer) {
  const std::size_t axes = layer.kernel.size(), taps = layer.taps();
  double phases = 1, terms = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const double reach = static_cast<double>(layer.kernel[i] - 1) * static_cast<double>(layer.dilations[i]) /
                         static_cast<double>(layer.strides[i]);
    phases *= static_cast<double>(layer.strides[i]);
    terms *= std::floor(reach) + 1;
  }
  if (taps == 0 || phases > kMostPhases || terms > kMostSpare * (static_cast<double>(taps) + 1)) {
    weights_.assign(w, w + layer.groups * layer.inputs * layer.outputs * taps);
    return;
  }
  for (std::size_t i = 0; i < axes; ++i)
    reach_.push_back((layer.kernel[i] - 1) * layer.dilations[i] / layer.strides[i] + 1);
  weights_.reserve(layer.groups * layer.inputs * layer.outputs * taps);
  Ints residues(axes, 0);
  do add_phase(residues, w);
  while (next_index(residues, layer.strides));
}

void Transposed::add_phase(const Ints& residues, const float* w) {
  const std::size_t taps = layer_.taps();
  const std::vector<PhaseTap> met =
      phase_taps(layer_.kernel, layer_.strides, layer_.dilations, reach_, residues);
  const std::size_t all = elements_of(reach_);
  std::size_t counts[kPartialSums] = {};
  std::vector<std::size_t> by_partial[kPartialSums], own[kPartialSums];
  for (std::size_t c = 0; c < layer_.inputs; ++c) {
    for (const PhaseTap& t : met) {
      const std::size_t partial = (c * taps + t.tap) % kPartialSums;
      ++counts[partial];
      by_partial[partial].push_back(c * all + t.of_all);
      own[partial].push_back(c * layer_.outputs * taps + t.tap);
    }
  }
  Phase phase{.residues = residues,
              .partial = exact::PartialTerms::of(counts),
              .terms = {},
              .weights = weights_.size()};
  for (const auto& terms : by_partial) phase.terms.insert(phase.terms.end(), terms.begin(), terms.end());
  for (std::size_t g = 0; g < layer_.groups; ++g) {
    for (std::size_t o = 0; o < layer_.outputs; ++o) {
      const float* const from = w + (g * layer_.inputs * layer_.outputs + o) * taps;
      for (const auto& places : own)
        for (const std::size_t place : places) weights_.push_back(from[place]);
    }
  }
  phases_.push_back(std::move(phase));
}

/// The windows of stride 1 that have the terms of all phases: window q has those of the outputs
/// stride * (first + q) + residue - begin.
Windows Transposed::windows_of(const TransposedSizes& sizes, Ints& first) const {
  const std::size_t axes = layer_.kernel.size();
  Windows windows;
  windows.kernel = reach_;
  windows.strides = windows.dilations = Ints(axes, 1);
  windows.input = sizes.input;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t begin = sizes.begin[i], stride = layer_.strides[i];
    first.push_back(divided_down(begin, stride));
    windows.begin.push_back(reach_[i] - 1 - first[i]);
    windows.output.push_back(divided_down(begin + sizes.output[i] - 1, stride) - first[i] + 1);
  }
  return windows;
}

/// One run of a layer with phases.
struct Transposed::Run {
  const Transposed& self;
  const TransposedSizes& sizes;
  const TransposedOperands& operands;
  Ints first;                                     ///< by axis, the number of window 0
  Windows windows;                                ///< of all phases
  std::size_t positions, axes, last, apart;       ///< of outputs; apart: the stride of the last axis
  std::vector<std::vector<std::size_t>> offsets;  ///< of each phase's terms, by place
  std::vector<std::int64_t> rows;                 ///< of outputs, by place_rows()

  Run(const Transposed& layer, const TransposedSizes& s, const TransposedOperands& o)
      : self(layer),
        sizes(s),
        operands(o),
        windows(layer.windows_of(s, first)),
        positions(elements_of(s.output)),
        axes(s.output.size()),
        last(axes - 1),
        apart(static_cast<std::size_t>(layer.layer_.strides[last])) {
    place_rows();
  }

  /// `of`: the offset of a term of all phases.
  template <class F>
  void place_terms(const F& of) {
    for (const Phase& phase : self.phases_) {
      std::vector<std::size_t>& to = offsets.emplace_back();
      to.reserve(phase.terms.size());
      for (const std::size_t term : phase.terms) to.push_back(of(term));
    }
  }

  const float* input(std::size_t sample, std::size_t group) const {
    const TransposedLayer& layer = self.layer_;
    return operands.x + (sample * layer.groups + group) * layer.inputs * windows.elements();
  }

  /// Neighbouring windows along the last axis.
  struct Line {
    std::size_t outer = 0;          ///< their index on the other axes, in row-major order
    std::int64_t window = 0;        ///< the first one's index on the last axis
    std::size_t at = 0, count = 0;  ///< at: of the first one's result
  };

  /// By outer phase and window, the row of outputs that it has; -1 where it has none.
  void place_rows() {
    Ints phases(self.layer_.strides.begin(), self.layer_.strides.end() - 1),
        outer(windows.output.begin(), windows.output.end() - 1);
    Ints phase(last, 0);
    do {
      Ints window(last, 0);
      do {
        std::int64_t row = 0;
        for (std::size_t i = 0; i < last; ++i) {
          const std::int64_t out = phases[i] * (first[i] + window[i]) + phase[i] - sizes.begin[i];
          const bool is_output = row >= 0 && out >= 0 && out < sizes.output[i];
          row = is_output ? row * sizes.output[i] + out : -1;
        }
        rows.push_back(row);
      } while (next_index(window, outer));
    } while (next_index(phase, phases));
  }

  /// How many windows are computed at a time, so that caches keep what they take and make.
  std::size_t windows_at_once(std::size_t outputs) const {
    const std::size_t of_tile = outputs > 2 ? kTileWindows : 2 * kTileWindows;
    const std::size_t least = outputs > 2 ? kLeastWindows : 0;
    const std::size_t of_results = kResultRoom / (std::min(kHeldResults, outputs) * apart),
                      of_terms =
                          std::max(kTermsOfPhases / std::max<std::size_t>(self.layer_.inputs, 1), least);
    return std::max<std::size_t>(std::min(of_results, of_terms) / of_tile, 1) * of_tile;
  }

  /// Outputs [begin, end) of a group at `count` neighbours of x, of which the lines are windows.
  void multiply(const float* x, bool has_room, std::size_t count, const std::vector<Line>& lines,
                std::size_t sample, std::size_t group, std::size_t begin, std::size_t end) const {
    thread_local Scratch results;
    const TransposedLayer& layer = self.layer_;
    const std::size_t held = std::min(kHeldResults, end - begin),
                      each = divided_up(count, kResultVector) * kResultVector;
    float* const to = results.of(apart * held * each);
    for (std::size_t n = begin; n < end; n += held) {
      const std::size_t outputs = std::min(held, end - n), channel = group * layer.outputs + n;
      for (std::size_t p = 0; p < self.phases_.size(); p += apart) {
        for (std::size_t i = 0; i < apart; ++i) {
          const Phase& phase = self.phases_[p + i];
          const std::size_t terms = phase.terms.size();
          exact::multiply_terms({.outputs = outputs,
                                 .positions = count,
                                 .terms = terms,
                                 .x = x,
                                 .x_offsets = offsets[p + i].data(),
                                 .x_has_room = has_room,
                                 .w = self.weights_.data() + phase.weights + channel * terms,
                                 .w_stride = terms,
                                 .partial = &phase.partial,
                                 .bias = operands.bias ? operands.bias + channel : nullptr,
                                 .y = to + i * held * each,
                                 .y_stride = each});
        }
        float* const y = operands.y + (sample * layer.groups * layer.outputs + channel) * positions;
        const std::int64_t* const rows_of_phase =
            rows.data() + p / apart * (rows.size() * apart / self.phases_.size());
        for (const Line& line : lines) {
          if (rows_of_phase[line.outer] >= 0)
            put(line, rows_of_phase[line.outer], outputs, to, held * each, each, y);
        }
      }
    }
  }

  /// Puts results of phases that differ in the last axis alone; `of_phase` is between those of two phases.
  void put(const Line& line, std::int64_t row, std::size_t outputs, const float* from, std::size_t of_phase,
           std::size_t of_output, float* y) const {
    const std::int64_t stride = self.layer_.strides[last], width = sizes.output[last];
    const std::int64_t start = stride * (first[last] + line.window) - sizes.begin[last];
    // Windows of which all phases are outputs: [whole, behind) of the line.
    const auto count = static_cast<std::int64_t>(line.count);
    const std::int64_t whole = std::min(count, start < 0 ? (-start + stride - 1) / stride : 0);
    const std::int64_t behind = std::max(whole, std::min(count, divided_down(width - start, stride)));
    for (std::size_t n = 0; n < outputs; ++n) {
      float* const to = y + n * positions + row * width;
      const float* const results = from + n * of_output + line.at;
      const auto put_some = [&](std::int64_t window) {
        for (std::int64_t i = 0; i < stride; ++i) {
          const std::int64_t out = start + window * stride + i;
          if (out >= 0 && out < width) to[out] = results[static_cast<std::size_t>(i) * of_phase + window];
        }
      };
      for (std::int64_t window = 0; window < whole; ++window) put_some(window);
      if (behind > whole)
        interleave(results + whole, of_phase, apart, static_cast<std::size_t>(behind - whole),
                   to + (start + whole * stride));
      for (std::int64_t window = behind; window < count; ++window) put_some(window);
    }
  }

  /// Parts of the work, so that every thread has some.
  struct Parts {
    std::size_t pieces, groups, samples, outputs;
    std::size_t parts = 1;
    Parts(const Run& run, std::size_t of_windows, int threads)
        : pieces(of_windows),
          groups(run.self.layer_.groups),
          samples(run.sizes.samples),
          outputs(run.self.layer_.outputs) {
      const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
      parts = std::clamp<std::size_t>(divided_up(workers, pieces * groups * samples), 1,
                                      divided_up(outputs, exact::kTileOutputs));
    }
    std::size_t count() const { return pieces * groups * samples * parts; }
    /// Calls f(piece, sample, group, first output, end) for part i.
    template <class F>
    void call(std::size_t i, const F& f) const {
      const std::size_t part = i % parts, group = i / parts % groups, rest = i / parts / groups;
      f(rest / samples, rest % samples, group, part * outputs / parts, (part + 1) * outputs / parts);
    }
  };

  void run_laid_out(int threads) {
    const std::size_t terms = self.layer_.inputs * windows.taps(), all = windows.positions();
    const std::size_t wanted = kLaidOutTerms / std::max<std::size_t>(terms, 1) / kTileWindows;
    const std::size_t width = std::min(all, std::max<std::size_t>(wanted, 1) * kTileWindows);
    std::vector<std::size_t> places(terms);
    for (std::size_t t = 0; t < terms; ++t) places[t] = t * width;
    place_terms([&](std::size_t term) { return places[term]; });
    const Parts parts(*this, divided_up(all, width), threads);
    parallel_for(parts.count(), 1, threads, [&](std::size_t begin, std::size_t end) {
      thread_local Scratch laid;
      float* const to = laid.of(terms * width + exact::kTermRoom);
      for (std::size_t i = begin; i < end; ++i) {
        parts.call(i, [&](std::size_t piece, std::size_t sample, std::size_t group, std::size_t from,
                          std::size_t behind) {
          const std::size_t start = piece * width, stop = std::min(all, start + width);
          lay_out(windows, input(sample, group), self.layer_.inputs, start, stop, places.data(), to);
          multiply(to, true, stop - start, lines_of(start, stop), sample, group, from, behind);
        });
      }
    });
  }

  /// The lines of windows [start, stop), whose results follow each other.
  std::vector<Line> lines_of(std::size_t start, std::size_t stop) const {
    std::vector<Line> lines;
    const auto width = static_cast<std::size_t>(windows.output[last]);
    for (std::size_t at = start; at < stop; at += lines.back().count) {
      const std::size_t window = at % width;
      lines.push_back({.outer = at / width,
                       .window = static_cast<std::int64_t>(window),
                       .at = at - start,
                       .count = std::min(stop - at, width - window)});
    }
    return lines;
  }

  /// Windows [from, from + count) of axis 0, as an image.
  struct Piece {
    std::int64_t from, count;
    SpreadImage image;
  };

  void run_spread(int threads) {
    const std::size_t inputs = self.layer_.inputs;
    const std::vector<Piece> pieces = pieces_of(threads);
    const std::size_t terms = inputs * windows.taps();
    const Parts parts(*this, pieces.size(), threads);
    std::vector<Run> runs(pieces.size(), *this);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      runs[i].place_terms(
          [&](std::size_t term) { return pieces[i].image.offsets()[exact::place_of_term(term, terms)]; });
    parallel_for(parts.count(), 1, threads, [&](std::size_t begin, std::size_t end) {
      thread_local Scratch room;
      for (std::size_t i = begin; i < end; ++i) {
        parts.call(i, [&](std::size_t at, std::size_t sample, std::size_t group, std::size_t from,
                          std::size_t behind) {
          const Piece& piece = pieces[at];
          const float* image = input(sample, group);
          if (!piece.image.is_image()) {
            float* const to = room.of(piece.image.size() + exact::kTermRoom);
            std::fill_n(to, piece.image.size(), 0.0F);
            piece.image.write(image, to);
            image = to;
          }
          runs[at].multiply_image(piece, image, sample, group, from, behind);
        });
      }
    });
  }

  /// A plane is what the last two axes span; its lines are computed as one, with what is between them.
  void multiply_image(const Piece& piece, const float* image, std::size_t sample, std::size_t group,
                      std::size_t begin, std::size_t end) const {
    const auto width = static_cast<std::size_t>(windows.output[last]);
    const auto size = [&](std::size_t i) { return i == 0 ? piece.count : windows.output[i]; };
    const std::size_t lines = last == 0 ? 1 : static_cast<std::size_t>(size(last - 1));
    const std::size_t joined = last == 0 ? width : piece.image.step(last - 1);
    const std::size_t all = last == 0 ? static_cast<std::size_t>(piece.count) : (lines - 1) * joined + width;
    const std::size_t most = windows_at_once(end - begin);
    Ints planes, plane;
    for (std::size_t i = 0; i + 1 < last; ++i) planes.push_back(size(i));
    plane.resize(planes.size());
    std::size_t outer = last == 0 ? 0 : static_cast<std::size_t>(piece.from) * outer_step();
    thread_local std::vector<Line> some;
    do {
      const float* x = image;
      for (std::size_t i = 0; i < plane.size(); ++i)
        x += static_cast<std::size_t>(plane[i]) * piece.image.step(i);
      for (std::size_t start = 0; start < all; start += most) {
        const std::size_t stop = std::min(all, start + most);
        some.clear();
        for (std::size_t line = last == 0 ? 0 : start / joined; line < lines && line * joined < stop;
             ++line) {
          const std::size_t from = line * joined, own = last == 0 ? all : width;
          const std::size_t here = std::max(start, from), behind = std::min(stop, from + own);
          if (here >= behind) continue;
          some.push_back({.outer = outer + line,
                          .window = static_cast<std::int64_t>(here - from) + (last == 0 ? piece.from : 0),
                          .at = here - start,
                          .count = behind - here});
        }
        multiply(x + start, !piece.image.is_image(), stop - start, some, sample, group, begin, end);
      }
      outer += lines;
    } while (next_index(plane, planes));
  }

  /// Outer windows from one index of axis 0 to the next.
  std::size_t outer_step() const { return static_cast<std::size_t>(product_of(windows.output, 1, last)); }

  std::vector<Piece> pieces_of(int threads) const {
    const auto all = static_cast<std::size_t>(windows.output[0]);
    const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
    const std::size_t others = sizes.samples * self.layer_.groups, row = windows.positions() / all;
    const std::size_t images =
        static_cast<std::size_t>(self.spread_size(windows, windows.output[0])) / kPhaseImage + 1;
    std::size_t taken =
        divided_up(all, std::clamp<std::size_t>(std::max(images, divided_up(workers, others)), 1, all));
    if (row == 1) taken = divided_up(taken, kTileWindows) * kTileWindows;
    std::vector<Piece> pieces;
    for (std::size_t from = 0; from < all; from += taken) {
      const auto some = static_cast<std::int64_t>(std::min(taken, all - from));
      const Windows part = windows.part(static_cast<std::int64_t>(from), some);
      pieces.push_back({static_cast<std::int64_t>(from), some, SpreadImage(part, self.layer_.inputs)});
    }
    return pieces;
  }
};

/// Floats of the image of `rows` windows of axis 0.
double Transposed::spread_size(const Windows& windows, std::int64_t rows) const {
  auto size = static_cast<double>(layer_.inputs);
  for (std::size_t i = 0; i < windows.axes(); ++i)
    size *= static_cast<double>((i == 0 ? rows : windows.output[i]) + windows.kernel[i] - 1);
  return size;
}

bool Transposed::is_spread_fastest(const Windows& windows) const {
  if (layer_.inputs == 1) return true;
  return layer_.outputs * phases_.size() <= kManyPhaseOutputs || windows.taps() > 1;
}

void Transposed::run(const TransposedSizes& sizes, const TransposedOperands& operands, int threads,
                     TermsAre how) const {
  if (layer_.outputs == 0 || layer_.groups == 0 || sizes.samples == 0 || elements_of(sizes.output) == 0)
    return;
  if (phases_.empty()) return transposed_ref(layer_, sizes, operands, weights_.data());
  Run run(*this, sizes, operands);
  const std::int64_t least = run.axes > 1 ? 1 : std::min<std::int64_t>(run.windows.output[0], kTileWindows);
  const bool may_spread = layer_.inputs > 0 && spread_size(run.windows, least) <= kMostPhaseImage;
  const bool is_spread =
      may_spread && how != TermsAre::kLaidOut && (how == TermsAre::kSpread || is_spread_fastest(run.windows));
  is_spread ? run.run_spread(threads) : run.run_laid_out(threads);
}

}  // namespace crumb::runtime
