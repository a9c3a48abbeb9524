#include "quant/recipe/stages.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"

namespace crumb {
namespace {

using Kind = StageOption::Kind;

constexpr double kMostCount = 1e9;

/// Appends the options of stages that find a layer's scales and codes on samples to the stage's own options.
std::vector<StageOption> with_options_of_layers(std::vector<StageOption> own, double sweeps,
                                                bool float_inputs) {
  const std::vector<StageOption> all = {
      {"scales", Kind::kSwitch, 1, "scales are found by the layer's inputs, else by the spec's search"},
      {"sweeps", Kind::kCount, sweeps, "through codes and scales that follow, each of which loses less", 0},
      {"float_inputs", Kind::kSwitch, float_inputs ? 1.0 : 0.0,
       "what is to stay is what the float network's layers give, not those of the quantized one"},
      {"even", Kind::kSwitch, 0,
       "samples that are larger than half of those beside them count as little as these"},
      {"magr", Kind::kAmount, 0,
       "how much the largest weights of a scale count beside outputs, and shrink first (MagR); 0: not"}};
  own.insert(own.end(), all.begin(), all.end());
  return own;
}

/// Returns the options of stages that choose codes column by column.
std::vector<StageOption> options_of_walks(StageOption damping, double sweeps) {
  std::vector<StageOption> all = with_options_of_layers(
      {damping, {"order", Kind::kSwitch, 1, "columns with the largest inputs come first"}}, sweeps, true);
  all.push_back({"few", Kind::kAmount, 0,
                 "damping of at least the columns over the samples, times this: few samples say little of "
                 "others"});
  all.push_back(
      {"accumulator", Kind::kCount, 0, "bits that sums of integers stay within (AXE); 0: no bound", 0});
  all.push_back(
      {"tile", Kind::kCount, 0, "terms that are added up in such a register; 0: all of an output", 0});
  return all;
}

std::vector<StageInfo>& table() {
  static const StageOption values = {"values", Kind::kSwitch, 0,
                                     "values between layers are as their quantizers make them"};
  static std::vector<StageInfo> stages = {
      {"block_wise",
       "each layer of a decoder learns by itself to give what the float one gives (EfficientQAT)",
       true,
       {{"passes", Kind::kCount, 1, "over the sequences"},
        {"sequences", Kind::kCount, 40, "of the text, from its beginning"},
        {"rate", Kind::kNumber, 3e-4, "of learning"},
        {"scale_rate", Kind::kNumber, 1e-3, "of learning scales of codes"},
        {"scales_alone", Kind::kSwitch, 0, "codes stay as they are, and their scales learn"},
        {"signs", Kind::kSwitch, 0,
         "weights move by signs of gradients, half a step of their grid at most (SignRound)"}}},
      {"end_to_end",
       "all layers together learn from the float network, or the text",
       true,
       {{"steps", Kind::kCount, 240, "each a batch"},
        {"rate", Kind::kNumber, 5e-4,
         "of learning, the highest; where it is not given, less, in proportion to rounding's error"},
        {"scale_rate", Kind::kNumber, 5e-4, "of learning scales of codes; where it is not given, rate"},
        {"warm_up", Kind::kCount, 15, "steps in which the rate grows", 0},
        {"scales_alone", Kind::kSwitch, 0, "codes stay as they are, and their scales learn"},
        {"learn_adapters", Kind::kSwitch, 0, "adapters beside the codes learn along"}}},
      {"low_rank",
       "what a few singular directions of each linear layer hold goes into an adapter, the rest into codes",
       false,
       {{"rank", Kind::kCount, 16, "of the adapter"},
        {"iterations", Kind::kCount, 1, "of both in turns (LoftQ); of 1 the directions are the matrix' own"}},
       false,
       InFloats::kGrows},
      {"outliers",
       "the largest weights stay numbers of 16 bits beside the codes of the rest (SqueezeLLM)",
       false,
       {{"share", Kind::kNumber, 0.0045, "of a matrix' weights"}},
       false,
       InFloats::kGrows},
      {"equalize",
       "channels of a layer and of the next one get the same range, in floats the network stays",
       false,
       {{"iterations", Kind::kCount, 10, "at most, over all layers"}},
       false,
       InFloats::kChanges},
      {"split",
       "channels that layers take with the largest weights are doubled, and their weights halved; in floats "
       "the network stays (OCS)",
       false,
       {{"share", Kind::kNumber, 0.02, "of the channels that a layer takes; one at least", 0, 1},
        {"even", Kind::kSwitch, 0,
         "halves are equal, not apart so that they round to what the weight would"}},
       false,
       InFloats::kGrows},
      {"smooth",
       "channels that are large on samples become smaller, and the weights that take them larger "
       "(SmoothQuant)",
       false,
       {{"alpha", Kind::kAmount, 0.5, "the power of activations in a factor, 1 less it that of weights", 0,
         1}},
       false,
       InFloats::kChanges},
      {"rotate",
       "channels are multiplied by orthogonal matrices, which spread what is large in a few; in floats the "
       "network "
       "stays (QuaRot)",
       false,
       {{"streams", Kind::kSwitch, 1, "residual streams turn"},
        {"heads", Kind::kSwitch, 1, "values of attention's heads turn"},
        {"online", Kind::kCount, 0,
         "channels of a block by which what other layers take is turned as the network runs; 0: none", 0},
        {"seed", Kind::kCount, 0, "of the matrices' signs", 0}},
       false,
       InFloats::kGrows},
      {"awq",
       "channels that are large on samples become smaller, by the factors whose rounding changes outputs "
       "least "
       "(AWQ)",
       false,
       {{"steps", Kind::kCount, 20, "powers of activations between 0 and 1 that are tried"},
        {"weights", Kind::kSwitch, 0, "factors that follow weights, too, are tried beside them"},
        {"even", Kind::kSwitch, 0,
         "samples that are larger than half of those beside them count as little as these"}},
       false,
       InFloats::kChanges},
      {"fisher",
       "palettes are learned, each weight counting by the squared gradient of the network's loss, on samples "
       "(SqueezeLLM); needs LibTorch",
       false,
       {{"damp", Kind::kAmount, 0, "of a palette's mean squared gradient, added to each"},
        {"draws", Kind::kCount, 1, "of signs of results, for each sample without labels"}},
       true},
      {"rounding", "weights are rounded each by itself, also where samples would let gptq choose", false, {}},
      {"gptq", "codes of each layer are chosen so that its outputs stay what they are, on samples (GPTQ)",
       false,
       options_of_walks({"damp", Kind::kNumber, 0.01, "of the inputs' mean second moment, added to each"}, 4),
       true},
      {"gpfq", "codes of each layer follow the path of its outputs column by column, on samples (GPFQ)",
       false,
       options_of_walks({"damp", Kind::kAmount, 0, "of the inputs' mean second moment, added to each"}, 0),
       true},
      {"qronos",
       "codes of each layer mend what those before it lost, first column first, on samples (Qronos)", false,
       options_of_walks({"damp", Kind::kNumber, 0.01, "of the inputs' mean second moment, added to each"}, 0),
       true},
      {"clip",
       "scales are found by the layer's inputs, and codes are the nearest (what AWQ does behind its factors)",
       false, with_options_of_layers({}, 0, false), true},
      {"adaround", "whether each weight is rounded up or down is learned from the layer's outputs (AdaRound)",
       false,
       with_options_of_layers(
           {{"steps", Kind::kCount, 300, "of Adam"}, {"rate", Kind::kNumber, 0.05, "of learning"}}, 0, true),
       true},
      {"best",
       "each layer is rounded in several ways, and keeps the one that its outputs lose least by (--method "
       "auto)",
       false,
       with_options_of_layers(
           {{"trials", Kind::kCount, 4,
             "the first of gptq, gptq unordered, qronos, gptq damp/10, gptq damp*10, rounding, gpfq", 1,
             kWaysOfBest},
            {"damp", Kind::kNumber, 0.01, "of the inputs' mean second moment, added to each"}},
           4, true),
       true},
      {"batch_norm",
       "channels get the mean and variance back that the float network gives them on samples: statistics of "
       "batch "
       "norms that are kept, scales and biases of layers",
       false,
       {{"own", Kind::kSwitch, 0,
         "statistics of norms are the samples' own, whatever the float network makes of these"},
        values}},
      {"bias_correction",
       "biases take in what codes change of a layer's mean outputs, on samples",
       false,
       {values}},
  };
  return stages;
}

const StageInfo& stage_named(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &StageInfo::name);
  if (found != table().end()) return *found;
  std::vector<std::string_view> names;
  std::string all;
  for (const StageInfo& stage : table()) {
    names.push_back(stage.name);
    all += (all.empty() ? "" : ", ") + std::string(stage.name);
  }
  throw usage_error("unknown stage " + quote_text(name) + ", did you mean '" + nearest_name(name, names) +
                    "'? The stages are " + all);
}

const StageOption& option_named(const StageInfo& stage, std::string_view key) {
  const auto found = std::ranges::find(stage.options, key, &StageOption::key);
  if (found != stage.options.end()) return *found;
  std::vector<std::string_view> keys;
  for (const StageOption& option : stage.options) keys.push_back(option.key);
  throw usage_error("the stage " + std::string(stage.name) + " has no option " + quote_text(key) +
                    ", did you mean '" + nearest_name(key, keys) + "'?");
}

std::optional<double> read_value(const StageOption& option, std::string_view text) {
  if (option.kind == Kind::kSwitch) {
    if (text == "on" || text == "true") return 1;
    if (text == "off" || text == "false") return 0;
    return std::nullopt;
  }
  const auto value = text.size() <= 32 ? parse_number<double>(text) : std::nullopt;
  if (!value || !std::isfinite(*value)) return std::nullopt;
  if (option.most && *value > *option.most) return std::nullopt;
  const bool fits = option.kind == Kind::kCount
                        ? *value >= option.least && *value <= kMostCount && *value == std::floor(*value)
                    : option.kind == Kind::kAmount ? *value >= 0
                                                   : *value > 0;
  return fits ? value : std::nullopt;
}

double value_of(const StageOption& option, std::string_view text) {
  if (const auto value = read_value(option, text)) return *value;
  throw usage_error("expected " + std::string(option.key) + " to be " + option.expected() + ", found " +
                    quote_text(text));
}

}  // namespace

std::string StageOption::expected() const {
  const std::string end = most ? " to " + text_of(*most) : " on";
  switch (kind) {
    case Kind::kCount: return "a whole number from " + text_of(least) + end;
    case Kind::kNumber: return "a number above 0" + (most ? ", at most " + text_of(*most) : "");
    case Kind::kAmount: return "a number from 0" + end;
    case Kind::kSwitch: return "on or off";
  }
  return {};
}

std::string StageOption::text_of(double value) const {
  if (kind == Kind::kSwitch) return value != 0 ? "on" : "off";
  char text[32];
  auto found = std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed);
  if (found.ec != std::errc()) found = std::to_chars(std::begin(text), std::end(text), value);
  return {text, found.ptr};
}

std::span<const StageInfo> stage_infos() { return table(); }

OwnStageInfo::OwnStageInfo(StageInfo info) : name_(info.name) {
  if (std::ranges::find(table(), name_, &StageInfo::name) != table().end())
    throw Error("there is a stage " + quote_text(name_) + " already");
  table().push_back(std::move(info));
}

OwnStageInfo::~OwnStageInfo() {
  std::erase_if(table(), [&](const StageInfo& info) { return info.name == name_; });
}

std::size_t count_shrinking(std::span<const Stage> stages) {
  const auto shrinks = [](const Stage& stage) { return stage.info().in_floats == InFloats::kShrinks; };
  const auto first = std::ranges::find_if_not(stages, shrinks),
             late = std::find_if(first, stages.end(), shrinks);
  if (late != stages.end())
    throw usage_error("the stage " + quote_text(to_string(*late)) +
                      " makes a smaller network, and stands behind " + quote_text(to_string(*first)) +
                      ", which is for the network that is planned; put it first");
  return static_cast<std::size_t>(first - stages.begin());
}

const StageInfo& Stage::info() const { return stage_named(name); }

double Stage::value(std::string_view option) const {
  const auto given = options.find(std::string(option));
  return given != options.end() ? given->second : option_named(info(), option).usual;
}

Stage parse_stage(std::string_view text) {
  std::size_t end = text.find(':');
  Stage stage{.name = std::string(text.substr(0, end)), .options = {}};
  const StageInfo& info = stage_named(stage.name);
  while (end != std::string_view::npos) {
    text.remove_prefix(end + 1);
    end = text.find(':');
    const std::string_view part = text.substr(0, end);
    const std::size_t equals = part.find('=');
    const StageOption& option = option_named(info, part.substr(0, equals));
    if (equals == std::string_view::npos)
      throw usage_error("expected " + std::string(option.key) + "=VALUE, found " + quote_text(part));
    if (!stage.options.emplace(option.key, value_of(option, part.substr(equals + 1))).second)
      throw usage_error("the option " + std::string(option.key) + " of " + stage.name + " is given twice");
  }
  return stage;
}

std::string to_string(const Stage& stage) {
  std::string text = stage.name;
  for (const StageOption& option : stage.info().options) {
    const auto given = stage.options.find(std::string(option.key));
    if (given != stage.options.end())
      text += ":" + std::string(option.key) + "=" + option.text_of(given->second);
  }
  return text;
}

}  // namespace crumb
