// Transposed convolutions of float32 operands, as convolutions of stride 1.
//
// Outputs whose index, with what is cut off in front of them, is the same modulo the stride are a phase. Its
// outputs meet the same taps of the kernel, and neighbours among them meet neighbours of the input: a phase
// is a convolution of stride 1 with some of the taps. All phases take their terms from one image, or from one
// set of windows.
//
// The terms of an output are those taps, for each input channel; the gaps that strides leave are no terms. A
// term keeps the number that it has among all weights of the output channel (input channels, then taps), so
// that it is added to the partial sum of that number modulo 16 (exact/term_products.h). Beyond the input are
// zeros, which are terms.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/exact/term_products.h"
#include "runtime/ops/windows.h"

namespace crumb::runtime {

/// Sizes of a transposed convolution; channels are those of one group, other sizes are by spatial axis.
struct TransposedLayer {
  std::size_t groups = 0, inputs = 0, outputs = 0;
  Ints kernel, strides, dilations;

  std::size_t taps() const;
};

/// The sizes of its operands: `begin` elements are cut off in front of the outputs.
struct TransposedSizes {
  std::size_t samples = 0;
  Ints begin, input, output;
};

/// x is [samples, groups * inputs, input...], bias (null: none) a number for each output channel, y is
/// [samples, groups * outputs, output...].
struct TransposedOperands {
  const float *x = nullptr, *bias = nullptr;
  float* y = nullptr;
};

/// By the definition, on one thread; kept for ever. w is [groups * inputs, outputs, kernel...].
void transposed_ref(const TransposedLayer& layer, const TransposedSizes& sizes,
                    const TransposedOperands& operands, const float* w);

/// How phases get their terms; the bits are the same.
enum class TermsAre : std::uint8_t {
  kFastest,  ///< one of the others, by the layer's sizes
  kLaidOut,  ///< written term by term
  kSpread,   ///< runs of an image; laid out where that would be large
};

/// A layer with its weights in the order in which phases take them. Many threads may use one.
class Transposed {
 public:
  /// w is [groups * inputs, outputs, kernel...] and may go away.
  Transposed(const TransposedLayer& layer, const float* w);

  /// Computes y on up to `threads` threads (0: as many as the machine has).
  void run(const TransposedSizes& sizes, const TransposedOperands& operands, int threads,
           TermsAre how = TermsAre::kFastest) const;

 private:
  /// Outputs of one residue by axis.
  struct Phase {
    Ints residues;
    exact::PartialTerms partial;
    std::vector<std::size_t> terms;  ///< by place: the number among the terms of all phases
    std::size_t weights = 0;         ///< where those of group 0 begin
  };
  struct Run;

  void add_phase(const Ints& residues, const float* w);
  Windows windows_of(const TransposedSizes& sizes, Ints& first) const;
  double spread_size(const Windows& windows, std::int64_t rows) const;
  bool is_spread_fastest(const Windows& windows) const;

  TransposedLayer layer_;
  Ints reach_;                 ///< by axis, how many neighbours of the input an output meets at most
  std::vector<Phase> phases_;  ///< residues in row-major order; empty where there would be too many
  std::vector<float>
      weights_;  ///< of phases: [groups][outputs][places]; all as they were where there are none
};

}  // namespace crumb::runtime
