#include "jobs/same_network.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Shape;

/// Returns the first element of one list that differs from the other's; "none" after the end of a list.
std::string first_other(const std::vector<std::string>& found, const std::vector<std::string>& expected) {
  const auto [mine, theirs] = std::ranges::mismatch(found, expected);
  const auto text = [](const auto at, const auto end) {
    return at == end ? std::string("none") : quote_text(*at);
  };
  return text(mine, found.end()) + ", there " + text(theirs, expected.end());
}

/// Whether shapes agree; open dimensions agree with any.
bool fits(const Shape& found, const Shape& expected) {
  return std::ranges::equal(found, expected, [](const graph::Dim& a, const graph::Dim& b) {
    return !a.known() || !b.known() || a.size == b.size;
  });
}

/// Whether shapes agree; a matrix may be stored transposed.
bool has_sizes_of(Shape found, const Shape& expected) {
  if (fits(found, expected)) return true;
  std::ranges::reverse(found);
  return fits(found, expected);
}

std::set<std::string> constants_of(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : graph.initializers) names.insert(name);
  for (const auto& [name, codes] : graph.quantized) names.insert(name);
  return names;
}

bool has_same_configuration(const NamedNetwork& one, const NamedNetwork& other) {
  const auto mine = one.files.find("config.json"), theirs = other.files.find("config.json");
  return mine != one.files.end() && theirs != other.files.end() && mine->second == theirs->second;
}

class Comparison {
 public:
  Comparison(const NamedNetwork& found, const NamedNetwork& expected) : found_(found), expected_(expected) {}

  void run() const {
    compare_values("input", found_.graph.inputs, expected_.graph.inputs);
    compare_values("output", found_.graph.outputs, expected_.graph.outputs);
    if (has_same_configuration(found_, expected_)) return;
    for (const std::string& name : constants_of(found_.graph)) {
      const auto mine = found_.graph.shape_of(name), theirs = expected_.graph.shape_of(name);
      const bool is_other = mine && theirs && !has_sizes_of(*mine, *theirs);
      if (is_other) refuse("its constant " + shapes_text(name, *mine, *theirs));
    }
  }

 private:
  void compare_values(const std::string& kind, const std::vector<std::string>& mine,
                      const std::vector<std::string>& theirs) const {
    if (mine != theirs) refuse("it has other " + kind + "s: " + first_other(mine, theirs));
    for (const std::string& name : mine) {
      const auto one = found_.graph.shape_of(name), other = expected_.graph.shape_of(name);
      if (one && other && !fits(*one, *other)) refuse("its " + kind + " " + shapes_text(name, *one, *other));
    }
  }

  static std::string shapes_text(const std::string& name, const Shape& mine, const Shape& theirs) {
    return quote_text(name) + " has shape " + graph::text_of(mine) + ", there " + graph::text_of(theirs);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw usage_error(found_.name + " is another network than " + expected_.name + ": " + what);
  }

  const NamedNetwork &found_, &expected_;
};

}  // namespace

void expect_same_network(const NamedNetwork& found, const NamedNetwork& expected) {
  Comparison(found, expected).run();
}

}  // namespace crumb::jobs
