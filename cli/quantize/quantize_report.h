// What crumb quantize prints of tensors and of networks alike.
#pragma once

#include <cstdint>
#include <string>

namespace crumb::cli {

/// "22.71 MB from 90.87 MB (4.00 times smaller)"; without what is in parentheses where there is nothing.
std::string size_text(std::uint64_t before, std::uint64_t after);

}  // namespace crumb::cli
