// What a recipe says of how weights become good codes: a list of stages, in order, each with its own options.
//
// As text: NAME[:OPTION=VALUE...], as in block_wise or block_wise:passes=2:sequences=48. In YAML a list of
// these, or of maps: [block_wise, {end_to_end: {steps: 400}}]. A bare name has its stage's defaults.
//
// Each stage and option is declared once, in stages.cpp: reading, printing, messages and help derive from
// there.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {

struct StageOption {
  enum class Kind {
    kCount,   ///< whole numbers from `least` to `most`
    kNumber,  ///< above 0, and at most `most`
    kAmount,  ///< from 0, which switches it off, to `most`
    kSwitch,  ///< on (1) or off (0)
  };
  std::string_view key;
  Kind kind;
  double usual;
  std::string_view help;
  double least = 1;
  std::optional<double> most = std::nullopt;  ///< none: 10^9 for counts, what a double holds for others

  /// Returns what a value must be: "a whole number from 1 on", "a whole number from 1 to 7".
  std::string expected() const;
  /// Returns a value as it is written.
  std::string text_of(double value) const;
};

/// What a stage does to the network in floats, before any number becomes a code.
enum class InFloats {
  kStays,
  kChanges,  ///< other numbers, so that codes differ from the checkpoint's own; the same network
  kGrows,    ///< other numbers and more of them, or more products
  kShrinks,  ///< another network, without some channels, heads or experts: it is planned after this stage
};

struct StageInfo {
  std::string_view name;
  std::string_view help;
  bool trains = false;  ///< done by training (crumb train lm, crumb train embed), not by crumb quantize
  std::vector<StageOption> options;
  bool rounds = false;  ///< chooses codes, and so is a method of its own (crumb quantize --method)
  InFloats in_floats = InFloats::kStays;
};

/// Returns all stages. Valid until an OwnStageInfo is made or ends.
std::span<const StageInfo> stage_infos();

/// A stage of a program's own, in the table for as long as this lives; ptq::OwnStage is that and what it
/// does. Not to be made while another thread reads stages. Its texts must outlive it.
class OwnStageInfo {
 public:
  /// Throws Error where there is a stage of that name.
  explicit OwnStageInfo(StageInfo info);
  ~OwnStageInfo();
  OwnStageInfo(const OwnStageInfo&) = delete;
  OwnStageInfo& operator=(const OwnStageInfo&) = delete;

 private:
  std::string_view name_;
};

/// How many ways to round the stage best knows; its option `trials` says how many of them are tried
/// (ptq/rounding/best.h).
inline constexpr std::size_t kWaysOfBest = 7;

struct Stage {
  std::string name;
  std::map<std::string, double> options;  ///< those that are given

  const StageInfo& info() const;
  /// Returns an option's value, the usual one where none is given. Precondition: the stage has this option.
  double value(std::string_view option) const;
  bool operator==(const Stage&) const = default;
};

/// Throws Error(kUsage) for an unknown stage or option, naming the nearest, for a value outside its range,
/// and for an option that is given twice.
Stage parse_stage(std::string_view text);

/// Returns how many of the stages shrink the network: the first ones do. Throws usage Error, which names the
/// stage, where one comes behind a stage that is for the network as it is planned.
std::size_t count_shrinking(std::span<const Stage> stages);

/// Returns text that parse_stage reads to the same stage.
std::string to_string(const Stage& stage);

}  // namespace crumb
