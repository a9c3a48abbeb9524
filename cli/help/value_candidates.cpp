#include "cli/help/value_candidates.h"

#include <algorithm>
#include <iterator>

#include "export/lint/lint.h"
#include "formats/number/block_format.h"
#include "formats/number/encoding.h"
#include "formats/number/number_format.h"
#include "formats/number/rounding.h"
#include "graph/passes/passes.h"
#include "quant/quant_spec.h"
#include "quant/recipe/stages.h"

namespace crumb::cli {
namespace {

/// Adds `text` where it begins with `begun`.
void add_word(std::string_view text, std::string_view help, const std::string& begun, Candidates& found) {
  if (text.starts_with(begun)) found.words.push_back({std::string(text), std::string(help)});
}

void add_formats_of_numbers(const std::string& begun, Candidates& found) {
  for (const NumberFormat& format : number_formats())
    add_word(format.name, std::to_string(format.bits) + " bits", begun, found);
  for (const BlockFormat& format : kBlockFormats)
    add_word(format.name, std::string(format.element) + " in blocks of " + std::to_string(format.block),
             begun, found);
}

/// Adds key=VALUE of a spec after what is there.
template <class Names, class Name>
void add_key(const std::string& before, const char* key, const Names& names, const Name& name_of,
             const std::string& begun, Candidates& found) {
  const std::string start = before + key + "=";
  if (!begun.starts_with(start)) return add_word(start, "", begun, found);
  for (const auto& row : names) add_word(start + std::string(name_of(row)), "", begun, found);
}

/// Adds format[:granularity][:key=value...].
void add_specs(const std::string& begun, Candidates& found) {
  const std::size_t colon = begun.rfind(':');
  if (colon == std::string::npos) return add_formats_of_numbers(begun, found);
  const std::string before = begun.substr(0, colon + 1);
  constexpr std::string_view kGranularities[] = {"tensor", "channel", "token", "group=", "block="};
  if (std::ranges::count(before, ':') == 1)
    for (const std::string_view granularity : kGranularities)
      add_word(before + std::string(granularity), "", begun, found);
  const auto itself = [](std::string_view name) { return name; };
  const auto name_of_row = [](const auto& row) { return row.name; };
  constexpr std::string_view kSwitch[] = {"on", "off"};
  add_key(before, "scale", kScaleFormats, name_of_row, begun, found);
  add_key(before, "search", kSearchNames, itself, begun, found);
  add_key(before, "range", kRangeNames, itself, begun, found);
  add_key(before, "zero", kZeroPointNames, itself, begun, found);
  add_key(before, "round", kRoundingNames, name_of_row, begun, found);
  add_key(before, "pad", kSwitch, itself, begun, found);
  add_key(before, "rotate", kSwitch, itself, begun, found);
}

void add_schemes(const std::string& begun, Candidates& found) {
  for (const Scheme& scheme : schemes()) add_word(scheme.name, scheme.summary, begun, found);
}

/// Adds name[:option=value...]; where `only_rounding`, only stages with `rounds`.
void add_stages(const std::string& begun, Candidates& found) {
  const std::size_t colon = begun.rfind(':');
  for (const StageInfo& stage : stage_infos()) {
    if (colon == std::string::npos) add_word(stage.name, stage.help, begun, found);
    if (colon == std::string::npos || begun.substr(0, begun.find(':')) != stage.name) continue;
    for (const StageOption& option : stage.options)
      add_word(begun.substr(0, colon + 1) + std::string(option.key) + "=", option.help, begun, found);
  }
}

void add_methods(const std::string& begun, Candidates& found) {
  add_word("rounding", "each weight by itself", begun, found);
  add_stages(begun, found);
}

void add_pass_names(const std::string& begun, Candidates& found) {
  for (const graph::Pass& pass : graph::all_passes()) add_word(pass.name, pass.what, begun, found);
}

void add_files(const std::string&, Candidates& found) { found.files = true; }

void add_devices(const std::string& begun, Candidates& found) {
  for (const char* device : {"cpu", "cuda", "cuda:0"}) add_word(device, "", begun, found);
}

void add_nothing(const std::string&, Candidates&) {}

using Add = void (*)(const std::string& begun, Candidates& found);

/// Adds candidates for the text from `start` on, each with the text before it.
void add_behind(Add add, const std::string& begun, std::size_t start, Candidates& found) {
  Candidates last;
  add(begun.substr(start), last);
  found.files = found.files || last.files;
  for (Candidate& word : last.words) found.words.push_back({begun.substr(0, start) + word.text, word.help});
}

/// Completes after the first '='.
template <Add add>
void after_equals(const std::string& begun, Candidates& found) {
  if (const std::size_t at = begun.find('='); at != std::string::npos) add_behind(add, begun, at + 1, found);
}

/// Completes the last element of a list.
template <Add add>
void listed(const std::string& begun, Candidates& found) {
  const std::size_t comma = begun.rfind(',');
  add_behind(add, begun, comma == std::string::npos ? 0 : comma + 1, found);
}

struct Value {
  std::string_view word;
  Add add;
};

constexpr Value kValues[] = {
    {"SPEC", add_specs},
    {"SPEC,...", listed<add_specs>},
    {"GLOB=SPEC", after_equals<add_specs>},
    {"SCHEME", add_schemes},
    {"FORMAT", add_formats_of_numbers},
    {"STAGE,...", listed<add_stages>},
    {"METHOD,...", listed<add_methods>},
    {"PASS", add_pass_names},
    {"DEVICE", add_devices},
    // Files and folders.
    {"FILE", add_files},
    {"FOLDER", add_files},
    {"MODEL", add_files},
    {"DATA", add_files},
    {"[NAME=]FILE", add_files},
    // Values that cannot be predicted.
    {"TEXT", add_nothing},
    {"NAME", add_nothing},
    {"GLOB", add_nothing},
    {"SIZE", add_nothing},
    {"IDS", add_nothing},
    {"NAME=SIZES", add_nothing},
    {"NAME=AXIS", add_nothing},
    {"NAME=VALUE", add_nothing},
    {"NAME=NUMBER", add_nothing},
    {"NAME=LO:HI", add_nothing},
    {"BITS", add_nothing},
    {"LEVEL", add_nothing},
    {"BITS:METHOD[:tile=N]", add_nothing},
    {"SHARE[:SCOPE][:steps=N][:rewind][:floor=SHARE]", add_nothing},
    {"BUDGET[:least=N][:most=N]", add_nothing},
    {"intN", add_nothing},
    {"CONDITION", add_nothing},
    // Numbers, by their unit.
    {"NUMBER", add_nothing},
    {"COUNT", add_nothing},
    {"THREADS", add_nothing},
    {"TOKENS", add_nothing},
    {"STEPS", add_nothing},
    {"EPOCHS", add_nothing},
    {"SAMPLES", add_nothing},
    {"SEQUENCES", add_nothing},
    {"LINES", add_nothing},
    {"PASSES", add_nothing},
    {"RUNS", add_nothing},
    {"RATE", add_nothing},
    {"SHARE", add_nothing},
    {"FACTOR", add_nothing},
    {"SECONDS", add_nothing},
    {"NANOSECONDS", add_nothing},
    {"PRODUCTS", add_nothing},
    {"OPSET", add_nothing},
};

const Value* find_value(std::string_view word) {
  const auto* found = std::ranges::find(kValues, word, &Value::word);
  return found == std::end(kValues) ? nullptr : found;
}

}  // namespace

void add_values(std::string_view word, const std::string& begun, Candidates& found) {
  if (const Value* value = find_value(word)) return value->add(begun, found);
  add_word(word, "", begun, found);
}

}  // namespace crumb::cli
