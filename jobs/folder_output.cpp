#include "jobs/folder_output.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/new_folder.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "base/text/fixed.h"
#include "export/folder/rounded_content.h"
#include "export/folder/true_files.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::jobs {
namespace {

constexpr std::array<std::pair<const char*, DType>, 3> kFolderTypes = {
    {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}};

/// A tensor is never cut: one above the limit makes a larger file.
void note_large_tensors(const exporting::FolderReport& plan, const std::string& shard, Observer& observer) {
  if (plan.large == 0) return;
  const bool one = plan.large == 1;
  observer.note(std::to_string(plan.large) + (one ? " tensor is" : " tensors are") + " larger than " +
                quote_text(shard) + " and " + (one ? "has" : "have each") +
                " a file of its own; the largest is " + quote_text(plan.largest) + " with " +
                fixed(static_cast<double>(plan.largest_bytes) / 1e6, 2) + " MB");
}

std::string cost_text(const exporting::RoundingCost& cost, const std::string& dtype) {
  if (cost.changed == 0) return "";
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.2g", 100 * cost.largest);
  std::string text = "rounding to " + dtype + " changes " + count_text(cost.changed, "number") + " of " +
                     std::to_string(cost.numbers);
  if (!cost.tensor.empty())
    text += ", by at most " + std::string(percent) + " % of it (tensor " + quote_text(cost.tensor) + ")";
  if (cost.vanished > 0) text += "; " + count_text(cost.vanished, "of them becomes", "of them become") + " 0";
  return text;
}

}  // namespace

std::uint64_t shard_bytes_of(const std::string& shard, const Observer& observer) {
  if (shard.empty()) return 0;
  const Result<std::uint64_t> bytes = parse_byte_size(shard);
  if (!bytes.ok()) throw usage_error(observer.spelled("shard") + ": " + bytes.failure().message);
  return bytes.value();
}

void refuse_ending(const std::string& output, const std::string& what, const Observer& observer,
                   std::string_view allowed) {
  const std::filesystem::path path(output);
  const std::string ending = path.extension().string();
  std::error_code none;
  if (ending == allowed || std::filesystem::is_directory(path, none)) return;
  for (const auto& [other, way] : {std::pair(".gguf", "crumb export --to gguf"),
                                   std::pair(".onnx", "crumb export --to qonnx, qcdq or float"),
                                   std::pair(".safetensors", "crumb dequantize"),
                                   std::pair(".crumb", "crumb quantize, merge or export --to packed")})
    if (ending == other)
      throw usage_error(observer.spelled("output") + " " + quote_text(output) + ": " + what +
                        ", and a file that ends in " + ending + " comes from " + way);
}

void claim_folder(const std::string& input, const std::string& folder, const Observer& observer) {
  refuse_ending(folder, "a folder is written", observer);
  refuse_overwriting_inputs({input}, folder);
  claim_new_folder(folder, [](const std::filesystem::path&) {});
}

exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& made,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& shard,
                                                Observer& observer) {
  refuse_ending(folder, "a folder is written", observer);
  const exporting::TrueFiles content(made);
  const exporting::FolderReport plan = exporting::plan_folder(content, options);
  note_large_tensors(plan, shard, observer);
  const ProgressScope scope(observer);
  options.progress = [&](size_t done, size_t) {
    observer.progress({.what = doing, .items = "tensors", .done = done, .all = plan.tensors});
  };
  return exporting::write_folder(content, folder, options);
}

std::string write_with_dtype(const exporting::FolderContent& content, const std::string& dtype,
                             const Observer& observer,
                             const std::function<void(const exporting::FolderContent&)>& write) {
  if (dtype.empty()) {
    write(content);
    return "";
  }
  const auto* const type = std::ranges::find(kFolderTypes, dtype, &std::pair<const char*, DType>::first);
  if (type == kFolderTypes.end())
    throw usage_error(observer.spelled("dtype") + " " + quote_text(dtype) + ": expected f32, f16 or bf16");
  const exporting::RoundedContent rounded(content, type->second);
  write(rounded);
  return cost_text(rounded.cost(), dtype);
}

}  // namespace crumb::jobs
