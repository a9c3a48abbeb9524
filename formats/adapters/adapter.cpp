#include "formats/adapters/adapter.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/checked_size.h"
#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"

namespace crumb {
namespace {

void check_matrix(std::span<const float> values, std::size_t rows, std::size_t cols,
                  const std::string& what) {
  if (checked::multiply(rows, cols) != checked::Size(values.size()))
    throw Error(what + " has " + std::to_string(values.size()) + " numbers, expected " +
                std::to_string(rows) + " times " + std::to_string(cols));
  const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (bad != values.end())
    throw Error(what + " has " + number_text(*bad) + " at index " + std::to_string(bad - values.begin()) +
                ", expected finite numbers");
}

}  // namespace

void check_adapter(const Adapter& adapter) {
  if (!is_utf8(adapter.base))
    throw Error("the name of an adapter's base, " + quote_text(adapter.base) + ", is not UTF-8");
  for (std::size_t i = 0; i < adapter.updates.size(); ++i) {
    const LowRankUpdate& update = adapter.updates[i];
    const std::string subject = "the update of " + quote_text(update.module);
    if (update.module.empty()) throw Error("an update of a layer without a name");
    if (!is_utf8(update.module)) throw Error(subject + ": the layer's name is not UTF-8");
    if (i > 0 && adapter.updates[i - 1].module >= update.module)
      throw Error(subject + (adapter.updates[i - 1].module == update.module
                                 ? " is there twice"
                                 : " stands behind " + quote_text(adapter.updates[i - 1].module) +
                                       ", expected the order of the names"));
    if (update.rank == 0 || update.in == 0 || update.out == 0)
      throw Error(subject + " has rank " + std::to_string(update.rank) + ", " + std::to_string(update.in) +
                  " inputs and " + std::to_string(update.out) + " outputs, expected 1 or more of each");
    if (!std::isfinite(update.scale))
      throw Error(subject + ": its scale is " + number_text(update.scale) + ", expected a finite number");
    check_matrix(update.down, update.rank, update.in, subject + ": its first matrix");
    check_matrix(update.up, update.out, update.rank, subject + ": its second matrix");
  }
}

}  // namespace crumb
