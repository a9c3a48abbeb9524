// Elementwise instructions on a block of elements, by the compiler's own vectors. They have the same bits on
// every processor: each element takes one operation after the other, without fused ones.
#pragma once

#include <span>

#include "runtime/fuse/program.h"

namespace crumb::runtime {

/// The elements of a block, or one number for all of them.
struct BlockSource {
  const float* values;
  bool is_number;
};

/// Numbers of an instruction: LeakyRelu's slope or HardSigmoid's alpha, HardSigmoid's beta, Clip's limits
/// (null: none).
struct BlockNumbers {
  float number = 0, other = 0;
  const float *least = nullptr, *most = nullptr;
};

/// y = what(a, b), or what(a). y may be the memory of a or b. Precondition: arithmetic, Relu, LeakyRelu,
/// Clip, HardSigmoid, HardSwish, Neg, Abs or Reciprocal.
void compute_block_portable(Elementwise what, const BlockNumbers& numbers, const BlockSource& a,
                            const BlockSource& b, std::span<float> y);
/// With AVX2. Precondition: may_use(Isa::kAvx2).
void compute_block_avx2(Elementwise what, const BlockNumbers& numbers, const BlockSource& a,
                        const BlockSource& b, std::span<float> y);

}  // namespace crumb::runtime
