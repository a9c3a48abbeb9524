#include "tasks/language/text/checksums.h"

#include <span>

#include "base/checksum.h"

namespace crumb::tasks {

std::uint32_t checksum_of(const LanguageText& text, std::uint32_t before) {
  return crc32_of(std::as_bytes(std::span(text.counts)),
                  crc32_of(std::as_bytes(std::span(text.tokens)), before));
}

std::uint32_t checksum_of_floats(const graph::Graph& graph) {
  std::uint32_t sum = 0;
  for (const auto& [name, constant] : graph.initializers) sum = crc32_of(constant.bytes(), sum);
  return sum;
}

std::uint32_t checksum_with_codes(const graph::Graph& graph) {
  std::uint32_t sum = checksum_of_floats(graph);
  for (const auto& [name, constant] : graph.quantized) {
    const QuantizedView view = constant.tensor->view();
    sum = crc32_of(view.zeros, crc32_of(view.scales, crc32_of(view.codes, sum)));
  }
  return sum;
}

}  // namespace crumb::tasks
