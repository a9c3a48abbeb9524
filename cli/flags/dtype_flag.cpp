#include "cli/flags/dtype_flag.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "export/folder/rounded_content.h"

namespace crumb::cli {
namespace {

constexpr std::array<std::pair<const char*, DType>, 3> kTypes = {
    {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}};

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

CLI::Option* add_dtype_flag(CLI::App& verb, std::string& dtype) {
  return verb
      .add_option(
          "--dtype", dtype,
          "Of floats: round them to f32, f16 or bf16, and say what that costs (else as they come, without "
          "loss)")
      ->group(kOutputFlags)
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
}

std::string write_with_dtype(const exporting::FolderContent& content, const std::string& dtype,
                             const std::function<void(const exporting::FolderContent&)>& write) {
  for (const auto& [name, type] : kTypes) {
    if (dtype != name) continue;
    const exporting::RoundedContent rounded(content, type);
    write(rounded);
    return cost_text(rounded.cost(), dtype);
  }
  write(content);
  return "";
}

}  // namespace crumb::cli
