#include "cli/export/export_flags.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text/nearest_name.h"

namespace crumb::cli {
namespace {

using namespace export_flag;

struct FlagRow {
  std::string_view name;
  std::uint32_t flag;
  bool (*is_given)(const ExportFlags&);
};

constexpr FlagRow kFlags[] = {
    {"--profile", kProfile, [](const ExportFlags& o) { return o.profile != "qonnx"; }},
    {"--opset", kOpset, [](const ExportFlags& o) { return o.opset > 0; }},
    {"--shape", kShape, [](const ExportFlags& o) { return !o.shapes.empty(); }},
    {"--input", kArchive, [](const ExportFlags& o) { return !o.archive.inputs.empty(); }},
    {"--set-argument", kArchive, [](const ExportFlags& o) { return !o.archive.arguments.empty(); }},
    {"--integer-view", kIntegerView, [](const ExportFlags& o) { return o.integer_view; }},
    {"--allow-approximate", kAllowApproximate, [](const ExportFlags& o) { return o.allow_approximate; }},
    {"--accumulator-config", kAccumulatorConfig,
     [](const ExportFlags& o) { return !o.accumulators.empty(); }},
    {"--input-range", kInputRange, [](const ExportFlags& o) { return !o.ranges.empty(); }},
    {"--weights-as-float", kWeightsAsFloat, [](const ExportFlags& o) { return o.weights_as_float; }},
    {"--weights-as", kWeightsAs, [](const ExportFlags& o) { return !o.weights_as.empty(); }},
    {"--native-types", kNativeTypes, [](const ExportFlags& o) { return o.native_types; }},
    {"--allow-arithmetic", kAllowArithmetic, [](const ExportFlags& o) { return o.allow_arithmetic; }},
    {"--without-adapters", kWithoutAdapters, [](const ExportFlags& o) { return o.without_adapters; }},
    {"--shard", kShard, [](const ExportFlags& o) { return !o.shard.empty(); }},
    {"--dtype", kDtype, [](const ExportFlags& o) { return !o.dtype.empty(); }},
    {"--name", kName, [](const ExportFlags& o) { return !o.adapter.empty(); }},
    {"--backend", kHls4ml, [](const ExportFlags& o) { return !o.project.backend.empty(); }},
    {"--io-type", kHls4ml, [](const ExportFlags& o) { return !o.project.io_type.empty(); }},
    {"--strategy", kHls4ml, [](const ExportFlags& o) { return !o.project.strategy.empty(); }},
    {"--reuse-factor", kHls4ml, [](const ExportFlags& o) { return o.project.reuse_factor != 0; }},
    {"--board", kFinn, [](const ExportFlags& o) { return !o.project.board.empty(); }},
    {"--target-fps", kFinn, [](const ExportFlags& o) { return o.project.target_fps != 0; }},
    {"--part", kProject, [](const ExportFlags& o) { return !o.project.part.empty(); }},
    {"--clock", kProject, [](const ExportFlags& o) { return o.project.clock != 0; }},
    {"--data", kProject, [](const ExportFlags& o) { return !o.project.data.empty(); }},
};

/// "qonnx", "hf and gguf", "a, b and c": the forms that know the flag.
std::string forms_with(std::uint32_t flag, std::span<const ExportForm> forms) {
  std::vector<std::string_view> names;
  for (const ExportForm& form : forms)
    if ((form.flags & flag) != 0) names.push_back(form.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  return text;
}

}  // namespace

const ExportForm& find_export_form(std::span<const ExportForm> forms, std::string_view name) {
  const auto found = std::ranges::find(forms, name, &ExportForm::name);
  if (found != forms.end()) return *found;
  std::vector<std::string_view> names;
  std::ranges::transform(forms, std::back_inserter(names), &ExportForm::name);
  std::string all;
  for (const std::string_view one : names) all += (all.empty() ? "" : ", ") + std::string(one);
  throw usage_error(unknown_name("form", name, names) + " (" + all + ")");
}

void refuse_flags_of_other_forms(const ExportFlags& options, const ExportForm& form,
                                 std::span<const ExportForm> forms) {
  for (const FlagRow& row : kFlags)
    if ((form.flags & row.flag) == 0 && row.is_given(options))
      throw usage_error(std::string(row.name) + " is for --to " + forms_with(row.flag, forms) +
                        ", found --to " + std::string(form.name));
}

bool has_export_flags(const ExportFlags& options) {
  return std::ranges::any_of(kFlags, [&](const FlagRow& row) { return row.is_given(options); });
}

}  // namespace crumb::cli
