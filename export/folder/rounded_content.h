// A model's folder whose floating tensors are rounded to one type, and what that costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "export/folder/folder_content.h"

namespace crumb::exporting {

struct RoundingCost {
  std::uint64_t numbers = 0;  ///< that were read
  std::uint64_t changed = 0;
  std::uint64_t vanished = 0;  ///< that became 0
  double largest = 0;          ///< |x - rounded x| / |x|, of those that did not become 0
  std::string tensor;          ///< that has it
};

class RoundedContent final : public FolderContent {
 public:
  /// To F32, F16 or BF16, to nearest, ties to even. The content must outlive it.
  RoundedContent(const FolderContent& content, DType type);

  std::vector<TensorDescription> tensors() const override;
  /// Throws Error, naming the tensor, where a number is beyond the type's largest.
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override;
  const std::vector<std::string>& files() const override { return content_.files(); }
  void read_file(const std::string& path, const Sink& sink) const override { content_.read_file(path, sink); }

  /// Of the tensors that were read.
  const RoundingCost& cost() const { return cost_; }

 private:
  const FolderContent& content_;
  DType type_;
  std::vector<TensorDescription> tensors_;  ///< of the content
  mutable RoundingCost cost_;
};

}  // namespace crumb::exporting
