// What crumb quantize prints both for tensors and for networks.
#pragma once

#include <cstdint>
#include <string>

namespace crumb::cli {

/// Returns "22.71 MB from 90.87 MB (4.00 times smaller)"; without the parentheses where `after` is 0.
std::string size_text(std::uint64_t before, std::uint64_t after);

}  // namespace crumb::cli
