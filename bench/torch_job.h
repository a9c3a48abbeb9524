// The job of crumb-bench quantize written with LibTorch's operators, as a user of LibTorch would write it.
// Free of LibTorch's headers; bench/torch/torch_job.cpp has it, where LibTorch was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/quant_spec.h"

namespace crumb::bench {

/// One matrix: scales by absmax, codes, two to a byte where they have four bits.
class TorchJob {
 public:
  virtual ~TorchJob() = default;
  virtual void quantize(int threads) = 0;
  /// What the last quantize() made, as float32, into memory that it keeps from one call to the next.
  virtual void dequantize(int threads) = 0;
  /// How many bytes of what the last quantize() made are not these; codes only where they fill whole bytes.
  virtual uint64_t differing_bytes(std::span<const std::byte> codes,
                                   std::span<const std::byte> scales) const = 0;
  /// How many values of what the last dequantize() made are not these, bit for bit.
  virtual uint64_t differing_values(std::span<const float> values) const = 0;
};

bool has_torch();

/// Null without LibTorch and for specs other than absmax intN by group or channel. Keeps a reference to
/// `values`.
std::unique_ptr<TorchJob> make_torch_job(const QuantSpec& spec, const std::vector<float>& values,
                                         uint64_t rows, uint64_t cols);

}  // namespace crumb::bench
