// What a recipe says of how weights become good codes: stages, in order, each with options of its own.
//
// As text: NAME[:OPTION=VALUE...], as in block_wise or block_wise:passes=2:sequences=48. In YAML a list of those, or of maps:
// [block_wise, {end_to_end: {steps: 400}}]. A bare name has its stage's defaults.
//
// Every stage and option stands once, in stages.cpp: reading, printing, messages and help derive from there.
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
    kNumber,  ///< above 0, `most` at most
    kAmount,  ///< from 0, which is none of it, to `most`
    kSwitch,  ///< on (1) or off (0)
  };
  std::string_view key;
  Kind kind;
  double usual;
  std::string_view help;
  double least = 1;
  std::optional<double> most =
      std::nullopt;  ///< none: of counts a thousand millions, of others what a double holds

  /// "a whole number from 1 on", "a whole number from 1 to 7".
  std::string expected() const;
  /// A value as it is written.
  std::string text_of(double value) const;
};

/// What a stage makes of the network in floats, before any number becomes a code.
enum class InFloats {
  kStays,
  kChanges,  ///< other numbers, so that codes are none of the checkpoint's own; the same network
  kGrows,    ///< and more of them, or more products
};

struct StageInfo {
  std::string_view name;
  std::string_view help;
  bool trains = false;  ///< done by training (crumb train lm, crumb train embed), not by crumb quantize
  std::vector<StageOption> options;
  bool rounds = false;  ///< chooses codes, and so is a method by itself (crumb quantize --method)
  InFloats in_floats = InFloats::kStays;
};

/// All that there are.
std::span<const StageInfo> stage_infos();

/// Ways to round that the stage best knows, of which `trials` says how many are tried (ptq/rounding/best.h).
inline constexpr std::size_t kWaysOfBest = 7;

struct Stage {
  std::string name;
  std::map<std::string, double> options;  ///< that are given

  const StageInfo& info() const;
  /// An option's value, the usual one where none is given. Precondition: the stage has it.
  double value(std::string_view option) const;
  bool operator==(const Stage&) const = default;
};

/// Throws Error(kUsage): an unknown stage or option, with the nearest; a value outside what it may be; an option twice.
Stage parse_stage(std::string_view text);

/// What parse_stage reads to the same stage.
std::string to_string(const Stage& stage);

}  // namespace crumb
