#include "runtime/lower/step_functions.h"

#include <algorithm>

#include "base/threads/parallel.h"

namespace crumb::runtime {
namespace {

void put_lines(const std::vector<std::vector<integer::Line>>& lines, StepFunctions& made) {
  const std::size_t outputs = lines.size();
  for (const auto& own : lines) made.pieces = std::max(made.pieces, own.size());
  made.lines.resize(made.pieces * 5 * outputs, 0);
  for (std::size_t c = 0; c < outputs; ++c) {
    made.all_lines = made.all_lines && !lines[c].empty();
    for (std::size_t p = 0; p < made.pieces && !lines[c].empty(); ++p) {
      const integer::Line line = p < lines[c].size() ? lines[c][p] : integer::Line();
      const double numbers[] = {line.slope, line.offset, line.least, line.most, line.magic};
      for (std::size_t i = 0; i < std::size(numbers); ++i)
        made.lines[(p * std::size(numbers) + i) * outputs + c] = numbers[i];
    }
  }
}

}  // namespace

StepFunctions step_functions(const Chain& chain, const UniformQuantizer& quantizer, IntegerWeight& w,
                             std::vector<std::int32_t>& least, std::vector<std::int32_t>& most) {
  const auto steps = static_cast<std::size_t>(quantizer.steps());
  const std::size_t outputs = w.outputs();
  StepFunctions made{.thresholds = std::vector<std::int32_t>(outputs * steps), .lines = {}};
  std::vector<std::vector<integer::Line>> lines(outputs);
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
      if (!quantizer.bipolar) lines[c] = integer::lines_of(own);
    }
  });
  put_lines(lines, made);
  return made;
}

}  // namespace crumb::runtime
