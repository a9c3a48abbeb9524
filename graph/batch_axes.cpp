#include "graph/batch_axes.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"

namespace crumb::graph {
namespace {

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

BatchAxes parse_batch_axes(const Graph& graph, const std::vector<std::string>& requests,
                           const std::string& field) {
  std::vector<std::string> names = graph.inputs;
  names.insert(names.end(), graph.outputs.begin(), graph.outputs.end());
  BatchAxes axes;
  for (const std::string& requested : requests) {
    const std::size_t equals = requested.rfind('=');  // a name may hold a '='
    const auto axis = equals == std::string::npos ? std::nullopt : whole_number(requested.substr(equals + 1));
    const auto refuse = [&](const std::string& why) {
      return usage_error(field + " " + quote_text(requested) + ": " + why);
    };
    if (!axis) throw refuse("expected NAME=AXIS, as in h0=1");
    const std::string name = requested.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw refuse(unknown_name("input or output", name, names));
    const Value* value = graph.find(name);
    if (value && value->shape && *axis >= static_cast<std::int64_t>(value->shape->size()))
      throw refuse(quote_text(name) + " has the shape " + text_of(*value->shape) + ", and no axis " +
                   std::to_string(*axis));
    if (!axes.emplace(name, *axis).second)
      throw refuse("the axis of " + quote_text(name) + " stands there twice");
  }
  return axes;
}

}  // namespace crumb::graph
