// Convolutions of float32 operands, as products whose terms are runs of positions (exact/term_products.h).
#pragma once

#include <cstddef>

#include "runtime/exact/term_products.h"
#include "runtime/ops/windows.h"

namespace crumb::runtime {

/// Sizes of a convolution, in elements.
struct ConvolutionLayer {
  std::size_t groups = 0, inputs = 0, outputs = 0;  ///< channels of one group
  std::size_t terms = 0;                            ///< inputs times taps of the kernel
  Windows windows;
};

/// x is [samples, groups * inputs, input...], w has `outputs` rows of `terms` for each group, bias (null:
/// none) a number for each output channel, y is [samples, groups * outputs, output...]. `then` is computed of
/// each element; its slopes are those of output channels.
struct ConvolutionOperands {
  std::size_t samples = 0;
  const float *x = nullptr, *w = nullptr, *bias = nullptr;
  float* y = nullptr;
  exact::TermsThen then = {};
};

/// How the windows reach the products; the bits are the same.
enum class WindowsAre : std::uint8_t {
  kFastest,  ///< one of the others, by the layer's sizes
  kLaidOut,  ///< written term by term
  kSpread,   ///< runs of a SpreadImage; laid out where that image would be large
};

/// Computes y on up to `threads` threads (0: as many as the machine has).
void convolve(const ConvolutionLayer& layer, const ConvolutionOperands& operands, int threads,
              WindowsAre how = WindowsAre::kFastest);

}  // namespace crumb::runtime
