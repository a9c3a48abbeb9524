#include "cli/quantize/quantize_report.h"

#include "cli/output.h"

namespace crumb::cli {

std::string size_text(std::uint64_t before, std::uint64_t after) {
  std::string text = short_bytes(after) + " from " + short_bytes(before);
  if (after == 0) return text;
  const auto was = static_cast<double>(before), is = static_cast<double>(after);
  return text + " (" +
         (is > was ? fixed(is / was, 2) + " times larger" : fixed(was / is, 2) + " times smaller") + ")";
}

}  // namespace crumb::cli
