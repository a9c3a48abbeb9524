#include "cli/folder_output.h"

#include <cstdio>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "cli/output.h"

namespace crumb::cli {
namespace {

/// A tensor is never cut: one above the limit makes a larger file.
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

exporting::FolderReport write_folder_with_notes(const exporting::FolderContent& content,
                                                const std::string& folder, exporting::FolderOptions options,
                                                const std::string& doing, const std::string& limit) {
  const exporting::FolderReport plan = exporting::plan_folder(content, options);
  note_large_tensors(plan, limit);
  Progress progress(doing, "tensors", plan.tensors, 0);
  options.progress = [&](size_t done, size_t) { progress.update(done, 0); };
  return exporting::write_folder(content, folder, options);
}

}  // namespace crumb::cli
