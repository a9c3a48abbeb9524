// Describes a quantized tensor in the terms of compressed-tensors, so that its library computes the same
// float32 values.
//
//   integers, half-integers, binary, ternary   pack-quantized (embeddings: int-quantized, one byte a code),
//              scales in F32: q * scale with q = code - zero point; for half-integers twice the value, at
//              half the scale. Where there are zero points, or unsigned codes, q takes a bit more:
//              transformers does not load packed zero points (compressed-tensors 0.20 makes their parameters
//              in another shape)
//   integers of 8 bits with zero points   int-quantized, zero points in I8
//   e4m3fn     float-quantized
//   mxfp4, mxfp6_e2m3, mxfp8_e4m3   mxfp4-pack-, mxfp6-pack-, mxfp8-quantized
//   nvfp4      nvfp4-pack-quantized, which computes (code * (block scale / global)) in float32, rounded to
//              bfloat16: the same values where the tensor's scale is a power of two
//
// Everything else (palettes, nf4, other minifloats, zero points that are floats or minima, groups that do not
// divide a row) has no form there.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "formats/crumb_file/crumb_file.h"

namespace crumb::exporting::compressed_tensors {

struct Scheme {
  std::string format;
  int bits = 0;
  bool is_float = false;
  bool symmetric = true;
  std::string strategy;                          ///< tensor, channel, group, block, tensor_group
  std::uint64_t group = 0;                       ///< of group and tensor_group
  std::uint64_t block_rows = 0, block_cols = 0;  ///< of block

  bool operator==(const Scheme&) const = default;

  bool is_packed_integer() const { return format == "pack-quantized"; }
  bool is_plain_integer() const { return format == "int-quantized"; }
};

/// A scheme, and how the packed file's codes become its codes.
struct StoredForm {
  Scheme scheme;
  std::array<int, 256> codes{};    ///< by pattern: q, or of floats the pattern that is stored
  int code_offset = 0;             ///< added to what is stored
  bool takes_zero_points = false;  ///< from q: there are none in the folder
  int zero_offset = 0;             ///< added to zero points that are
  float scale_factor = 1;          ///< of scales
  bool is_approximate = false;
};

/// A Failure says why there is no form, and names the nearest spec that has one. `allow_approximate`: a form
/// whose values are nearly the same (nvfp4) will do. Preconditions: tensor.encoding; two axes.
Result<StoredForm> stored_form(const PackedTensor& tensor, float tensor_scale, bool is_embedding,
                               bool allow_approximate);

/// A member of config_groups.
nlohmann::json config_group(const Scheme& scheme, const std::vector<std::string>& targets);

}  // namespace crumb::exporting::compressed_tensors
