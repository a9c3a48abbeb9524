// GPTQ of one matrix in LibTorch's operators, as its users write it (Frantar et al. 2022, arXiv:2210.17323: blocks of 128 columns,
// float32, the Hessian's inverse by Cholesky). Free of LibTorch's headers; bench/torch/ptq_job.cpp has it, where LibTorch was found.
#pragma once

#include <cstddef>
#include <vector>

namespace crumb::bench {

struct PtqWork {
  std::size_t rows = 0, columns = 0, group = 0;
  std::vector<float> weights;  ///< [rows, columns]
  std::vector<float> moments;  ///< [columns, columns]
  std::vector<float> scales;   ///< [rows, columns / group]
  float most = 0;              ///< the largest code
  double damping = 0.01;
};

/// The rounded weights. Precondition: has_torch().
std::vector<float> gptq_in_torch(const PtqWork& work, int threads);
/// Seconds of a product of these sizes, in float32: what the machine's GEMM does.
double product_in_torch(std::size_t rows, std::size_t columns, std::size_t terms, int threads);

}  // namespace crumb::bench
