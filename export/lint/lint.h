// Rules of the tools that take QONNX and QCDQ files, each checked by itself: a file that keeps them all is
// taken, and means there what it means here. Breaking one is silent, or is noticed late, in most of those
// tools.
//
// A rule is one row of rules(): printing, documentation and tests derive from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace crumb::exporting {

/// Whose rules. Bits, so that a rule can belong to several.
enum class Profile : unsigned { kQonnx = 1, kFinn = 2, kHls4ml = 4, kOnnxruntime = 8 };

/// "qonnx", "finn", "hls4ml", "onnxruntime".
std::string_view name_of(Profile profile);
std::span<const Profile> all_profiles();

/// Throws usage Error, which names the nearest one.
Profile profile_named(std::string_view name);

/// One of those that QONNX files are written for: all but onnxruntime's. Throws usage Error.
Profile qonnx_profile_named(std::string_view name);

/// What becomes of a file that breaks a rule.
enum class Severity : std::uint8_t {
  kRefused,      ///< the tool refuses it, or takes it for something else
  kApproximate,  ///< the tool takes it, and computes nearly the same
  kWarning,      ///< the tool takes it; some inputs give other numbers there
};

/// "refused", "approximate", "warning".
std::string_view name_of(Severity severity);

struct Finding {
  std::string rule;
  std::string node;     ///< its name, or that of a value; what of the file it is where it is neither
  std::string message;  ///< what was found, and what was expected
  bool fixable = false;
  Severity severity = Severity::kRefused;

  bool operator==(const Finding&) const = default;
  auto operator<=>(const Finding&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

class Subject;
class Report;

struct Rule {
  std::string_view name;
  unsigned profiles;         ///< of Profile's bits
  std::string_view what;     ///< what must be so
  std::string_view remedy;   ///< what a person does who cannot or will not use --fix
  std::string_view fixable;  ///< "yes", "no", or where
  void (*check)(const Subject& subject, Report& report);
  /// Rewrites what the check reports as fixable; null where nothing is, or where reading and writing the file
  /// does it.
  graph::Graph (*fix)(graph::Graph graph, Profile profile) = nullptr;
  Severity severity = Severity::kRefused;

  bool is_for(Profile profile) const { return (profiles & static_cast<unsigned>(profile)) != 0; }
};
std::span<const Rule> rules();

/// What a graph breaks, sorted; without the rules about how a file is written.
std::vector<Finding> lint(const graph::Graph& graph, Profile profile);

/// What a file breaks, sorted. Throws Error where it cannot be read.
std::vector<Finding> lint_file(const std::filesystem::path& path, Profile profile);

/// The same network with everything rewritten that is fixable. The outputs keep their numbers (sums of matrix
/// products and convolutions aside, which an engine may add up in another order once a bias stands apart).
graph::Graph fix(graph::Graph graph, Profile profile);

/// What the profile's rules about names want, and nothing else.
graph::Graph fix_names(graph::Graph graph, Profile profile);

}  // namespace crumb::exporting
