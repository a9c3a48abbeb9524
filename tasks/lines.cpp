#include "tasks/lines.h"

#include "tasks/random.h"

namespace crumb::tasks {

Samples make_lines(const Samples& digits, std::size_t lines, std::uint64_t seed) {
  Random random(seed);
  Samples made;
  made.shape = {kLineColumns, kLineRows};
  for (std::size_t line = 0; line < lines; ++line) {
    const std::size_t start = made.inputs.size();
    made.inputs.resize(start + static_cast<std::size_t>(kLineColumns * kLineRows), 0.0F);
    const auto length = static_cast<std::int64_t>(3 + random.below(kMostDigits - 2));
    std::int64_t column = 0;
    std::int64_t written = 0;
    for (; written < length; ++written) {
      column += static_cast<std::int64_t>(random.below(3));
      if (column + kLineRows > kLineColumns) break;
      const std::size_t digit = random.below(static_cast<std::uint64_t>(digits.size()));
      for (std::int64_t x = 0; x < 8; ++x) {
        for (std::int64_t y = 0; y < kLineRows; ++y) {
          made.inputs[start + static_cast<std::size_t>((column + x) * kLineRows + y)] =
              digits.inputs[digit * 64 + static_cast<std::size_t>(y * 8 + x)];
        }
      }
      made.labels.push_back(digits.labels[digit]);
      column += 8;
    }
    for (; written < kMostDigits; ++written) made.labels.push_back(-1);
  }
  return made;
}

}  // namespace crumb::tasks
