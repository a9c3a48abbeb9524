#include "quant/misfits.h"

#include <algorithm>

#include "base/error.h"

namespace crumb {

constexpr size_t kMostListed = 20;

void refuse_misfits(const std::vector<std::string>& misfits) {
  if (misfits.empty()) return;
  std::string message = std::to_string(misfits.size()) +
                        (misfits.size() == 1 ? " tensor does" : " tensors do") +
                        " not fit the spec (the output axis comes first):";
  for (size_t i = 0; i < std::min(misfits.size(), kMostListed); ++i) message += "\n  " + misfits[i];
  if (misfits.size() > kMostListed)
    message += "\n  and " + std::to_string(misfits.size() - kMostListed) + " more";
  throw Error(
      message +
      "\nchoose another size, add ':pad' to allow a smaller last group, or give these tensors another spec "
      "with --set or --exclude, or by a rule of the recipe");
}

}  // namespace crumb
