#include "cli/folder_output.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files/new_folder.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "cli/output.h"
#include "export/folder/true_files.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

/// Notes tensors above the limit: a tensor is never cut, so each makes a larger file.
void note_large_tensors(const exporting::FolderReport& plan, const std::string& limit) {
  if (plan.large == 0) return;
  const bool one = plan.large == 1;
  std::fprintf(stderr, "note: %zu %s larger than %s and %s a file of its own; the largest is %s with %s\n",
               plan.large, one ? "tensor is" : "tensors are", quote_text(limit).c_str(),
               one ? "has" : "have each", quote_text(plan.largest).c_str(),
               megabytes(plan.largest_bytes).c_str());
}

}  // namespace

std::uint64_t shard_bytes_of(const std::string& size, const std::string& flag) {
  if (size.empty()) return 0;
  const Result<std::uint64_t> bytes = parse_byte_size(size);
  if (!bytes.ok()) throw usage_error(flag + ": " + bytes.failure().message);
  return bytes.value();
}

void refuse_ending(const std::string& output, const std::string& what, std::string_view allowed) {
  const std::filesystem::path path(output);
  const std::string ending = path.extension().string();
  std::error_code none;
  if (ending == allowed || std::filesystem::is_directory(path, none)) return;
  for (const auto& [other, way] : {std::pair(".gguf", "crumb export --to gguf"),
                                   std::pair(".onnx", "crumb export --to qonnx, qcdq or float"),
                                   std::pair(".safetensors", "crumb dequantize"),
                                   std::pair(".crumb", "crumb quantize, merge or export --to packed")})
    if (ending == other)
      throw usage_error("-o " + quote_text(output) + ": " + what + ", and a file that ends in " + ending +
                        " comes from " + way);
}

void claim_folder(const std::string& input, const std::string& folder) {
  refuse_ending(folder, "a folder is written");
  refuse_overwriting_inputs({input}, folder);
  claim_new_folder(folder, [](const std::filesystem::path&) {});
}

exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& made,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& limit) {
  refuse_ending(folder, "a folder is written");
  const exporting::TrueFiles content(made);
  const exporting::FolderReport plan = exporting::plan_folder(content, options);
  note_large_tensors(plan, limit);
  Progress progress(doing, "tensors", plan.tensors, 0);
  options.progress = [&](size_t done, size_t) { progress.update(done, 0); };
  return exporting::write_folder(content, folder, options);
}

}  // namespace crumb::cli
