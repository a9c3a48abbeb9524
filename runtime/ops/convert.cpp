#include "runtime/ops/convert.h"

#include <algorithm>

namespace crumb::runtime {

Array cast(const Array& array, ElementType type) {
  if (array.type() == type) return array;
  Array made(type, array.shape());
  with_carrier(array.carrier(), [&]<class From>() {
    with_carrier(made.carrier(), [&]<class To>() {
      std::ranges::transform(array.values<From>(), made.template writable<To>().begin(), converted<To, From>);
    });
  });
  return made;
}

}  // namespace crumb::runtime
