// A GGUF file as a packed file, codes and scales as they are: the inverse of to_gguf.h.
//
//   Q4_0 int4:group=32, Q5_0 int5:group=32, Q8_0 int8:group=32: narrow where the least code does not occur
//   Q4_1, Q5_1   uint4 and uint5 with zero=min
//   Q1_0         binary:group=128
//   Q2_0, TQ2_0  int2:group=64 and ternary:group=256, or uint2 with zero points of 1 where a code stands for
//                2
//   MXFP4, NVFP4 e2m1 in groups of 32 and 16
// Scales may be negative (an encoding's "sign": "any" where one is); float tensors stay in their type, and
// blocks of other types, whose codes have scales of several levels, become float32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"

namespace crumb::exporting {

struct PackReport {
  std::uint64_t bytes = 0;
  std::map<std::string, std::size_t> specs;  ///< tensors of each; "F32" and so on of those that are no codes
  std::vector<std::string> notes;            ///< for people
};

/// Precondition: `file` is a GGUF file (Checkpoint::kind). Throws Error: scales that are no finite numbers,
/// naming the tensor; what reading and writing meet. One tensor is in memory at a time.
PackReport pack_gguf(const Checkpoint& file, const std::filesystem::path& output);

}  // namespace crumb::exporting
