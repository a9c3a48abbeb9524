#include "export/folder/same_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "models/configured_network.h"
#include "quant/packed/packed_stream.h"

namespace crumb::exporting {
namespace {

void compare_values(std::span<const float> meant, std::span<const float> found, const std::string& name,
                    ValueDifference& difference) {
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(meant[i]) == std::bit_cast<std::uint32_t>(found[i])) continue;
    if (difference.count++ == 0) difference.tensor = name;
    const double apart = std::fabs(static_cast<double>(meant[i]) - static_cast<double>(found[i]));
    difference.largest = std::max(difference.largest, apart / std::fabs(static_cast<double>(meant[i])));
  }
}

}  // namespace

ValueDifference compare_folder(const TensorSource& meant, const std::filesystem::path& folder, int threads) {
  const TensorSource found = TensorSource::open(folder);
  const std::optional<std::string> unused = models::unused_head(meant);
  ValueDifference difference;
  for (const SourceTensor& tensor : meant.tensors()) {
    check_interrupt();
    const SourceTensor* const other = found.find(tensor.name);
    if (other == nullptr && tensor.name == unused) continue;
    if (other == nullptr || other->shape != tensor.shape)
      throw Error("read back, the tensor " + quote_text(tensor.name) +
                  (other == nullptr ? " is missing" : " has another shape"));
    if (tensor.dtype == DType::kC64) continue;
    const auto left = meant.stream(tensor, threads), right = found.stream(*other, threads);
    while (true) {
      const std::span<const float> x = left->next(kStreamPiece), y = right->next(kStreamPiece);
      if (x.empty()) break;
      compare_values(x, y, tensor.name, difference);
    }
  }
  return difference;
}

}  // namespace crumb::exporting
