#include "runtime/lower/step_functions.h"

#include <optional>

#include "base/threads/parallel.h"

namespace crumb::runtime {

StepFunctions step_functions(const Chain& chain, const UniformQuantizer& quantizer, IntegerWeight& w,
                             std::vector<std::int32_t>& least, std::vector<std::int32_t>& most) {
  const auto steps = static_cast<std::size_t>(quantizer.steps());
  const std::size_t outputs = w.outputs();
  StepFunctions made{std::vector<std::int32_t>(outputs * steps), std::vector<double>(5 * outputs, 0)};
  parallel_for(outputs, 8, 0, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      if (chain.falls(c)) {
        const std::int32_t low = least[c];
        least[c] = -most[c];
        most[c] = -low;
        for (std::size_t k = 0; k < w.terms(); ++k) {
          std::int16_t& weight = w.integers[c * w.terms() + k];
          weight = static_cast<std::int16_t>(-weight);
        }
      }
      const auto own = chain.thresholds(c, least[c], most[c], quantizer);
      std::ranges::copy(own, made.thresholds.begin() + static_cast<std::ptrdiff_t>(c * steps));
      const auto line = quantizer.bipolar ? std::nullopt : integer::line_of(own);
      if (!line) continue;
      const double numbers[] = {line->slope, line->offset, line->least, line->most, line->magic};
      for (std::size_t i = 0; i < std::size(numbers); ++i) made.lines[i * outputs + c] = numbers[i];
    }
  });
  return made;
}

}  // namespace crumb::runtime
