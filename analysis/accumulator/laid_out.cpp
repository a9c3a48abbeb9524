#include "analysis/accumulator/laid_out.h"

#include <algorithm>
#include <numeric>

namespace crumb::analysis {

std::size_t elements_of(std::span<const std::int64_t> shape) {
  std::size_t all = 1;
  for (const std::int64_t size : shape) all *= static_cast<std::size_t>(size);
  return all;
}

Sizes broadcast_shape(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() < b.size() ? b : a;
  const Sizes& shorter = a.size() < b.size() ? a : b;
  Sizes made = longer;
  const std::size_t before = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& size = made[before + i];
    if (size != shorter[i] && size != 1 && shorter[i] != 1) {
      throw Error("shapes " + graph::text_of(a) + " and " + graph::text_of(b) +
                  " do not broadcast to each other");
    }
    if (size == 1) size = shorter[i];
  }
  return made;
}

Integers counted(Sizes shape) {
  Integers made{std::move(shape), {}};
  made.values.resize(elements_of(made.shape));
  std::iota(made.values.begin(), made.values.end(), std::int64_t{0});
  return made;
}

}  // namespace crumb::analysis
