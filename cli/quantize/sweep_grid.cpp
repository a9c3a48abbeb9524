#include "cli/quantize/sweep_grid.h"

#include <algorithm>
#include <functional>

#include "base/files/text.h"
#include "quant/recipe/stages.h"

namespace crumb::cli {
namespace {

constexpr std::string_view kRounding = "rounding";

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Returns the elements of a flag's list, each by `read`, which may refuse it.
std::vector<std::string> list_of(const std::string& flag, const std::string& list,
                                 const std::function<std::string(const std::string&)>& read) {
  std::vector<std::string> found;
  for (const std::string& part : parts_of(list, ',')) {
    std::string one;
    try {
      one = read(part);
    } catch (const Error& error) {
      throw usage_error(flag + ": " + error.what());
    }
    if (std::ranges::find(found, one) != found.end())
      throw usage_error(flag + " has " + quote_text(one) + " twice");
    found.push_back(std::move(one));
  }
  return found;
}

constexpr std::string_view kSame = "same";

/// Returns the spec of activations for "same": the format's own numbers, as integers without a sign; those
/// that can be negative get one (graph/quantize/plan.h).
std::string activations_of(const std::string& requested, const std::string& format) {
  const std::string number = format.substr(0, format.find(':'));
  if (requested != kSame || number == "keep") return requested == kSame ? number : requested;
  try {
    return to_string(parse_activations_or_keep(number.starts_with("int") ? "u" + number : number));
  } catch (const Error& error) {
    throw usage_error("--activations same, of " + quote_text(format) + ": " + error.what());
  }
}

std::string method_of(const std::string& text) {
  if (text == kRounding) return text;
  std::string method;
  for (const std::string& part : parts_of(text, '+')) {
    if (part == kRounding)
      throw usage_error(quote_text(text) + ": rounding stands for no stage, and is joined to none");
    const Stage stage = parse_stage(part);
    if (stage.info().trains) throw usage_error("the stage " + stage.name + " is one of training");
    method += (method.empty() ? "" : "+") + to_string(stage);
  }
  return method;
}

}  // namespace

std::vector<jobs::SweepCell> sweep_cells(const SweepGridFlags& flags) {
  const auto formats = list_of("--formats", flags.formats,
                               [](const std::string& text) { return to_string(parse_spec_or_keep(text)); });
  const auto activations = list_of("--activations", flags.activations, [](const std::string& text) {
    return text == kSame ? text : to_string(parse_activations_or_keep(text));
  });
  const auto methods = list_of("--methods", flags.methods, method_of);
  std::vector<jobs::SweepCell> cells;
  for (const std::string& format : formats) {
    for (const std::string& spec : activations) {
      for (const std::string& method : methods) {
        RecipeFlags recipe = flags.recipe;
        recipe.weights = format;
        recipe.activations = activations_of(spec, format);
        if (method != kRounding) recipe.stages = method;
        std::ranges::replace(recipe.stages, '+', ',');
        cells.push_back({.format = format,
                         .activations = recipe.activations,
                         .method = method,
                         .recipe = recipe_of(recipe)});
      }
    }
  }
  return cells;
}

}  // namespace crumb::cli
