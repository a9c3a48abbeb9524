#include "cli/flags/target_flags.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <span>

#include "base/checksum.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/not_empty.h"
#include "jobs/quantize_parts.h"

namespace crumb::cli {
namespace {

/// Returns a recipe under a line by which a later run recognizes it, unless a person changed it: the line has
/// the output's name and the checksum of the text after it.
std::string signed_recipe(const std::filesystem::path& output, const std::string& yaml) {
  char checksum[16];
  std::snprintf(checksum, sizeof checksum, "%08x", crc32_of(std::as_bytes(std::span(yaml))));
  return "# crumb quantize --target chose this for " + quote_text(output.filename().string()) +
         " (checksum " + checksum + ")\n" + yaml;
}

std::vector<QuantSpec> formats_of(const std::string& flag, std::string_view text,
                                  std::vector<QuantSpec> (*parse)(std::string_view)) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw usage_error(flag + ": " + error.what());
  }
}

/// Refuses targets, inputs and formats of activations that do not go together.
void refuse_misfits(const TargetFlags& flags, const Wish& requested, bool is_graph) {
  if (!requested.activations.empty() && !requested.target.is_of_networks())
    throw usage_error(
        "--activation-formats: what layers take in is not in the file and costs none of " + flags.target +
        ", so that nothing is to be chosen; give --activations SPEC, or a --target in bit operations "
        "(2.5Gbops) or accumulators (16acc)");
  if (is_graph && requested.target.file_bytes > 0)
    throw usage_error(
        "--target " + flags.target +
        ": the size of a file is chosen for of checkpoints; of a graph give bits per weight "
        "(3.5bpw), bit operations (2.5Gbops) or accumulators (16acc), or --tensors-only to take "
        "it for a checkpoint");
}

}  // namespace

void add_target_flags(CLI::App& verb, TargetFlags& flags) {
  verb.add_option(
          "--target", flags.target,
          "Choose a format for every tensor, embedding tables too, so that all stay within SIZE and the "
          "least is lost: bits per weight, as in 3.5bpw, or the file's size, as in 200MB; for every layer of "
          "a network, so that its bit operations (2.5Gbops) or the widest register of any layer (16acc) "
          "do; writes the recipe beside the output")
      ->type_name("SIZE")
      ->group("Formats chosen within a size")
      ->check(not_empty);
  verb.add_option("--formats", flags.formats,
                  "What --target chooses from, with commas between (" + std::string(kDefaultFormats) +
                      "; for networks' bit operations and registers, and for graphs " +
                      std::string(kDefaultNetworkFormats) + ")")
      ->type_name("SPEC,...")
      ->group("Formats chosen within a size")
      ->check(not_empty);
  verb.add_option("--activation-formats", flags.activation_formats,
                  "What --target chooses from for what each layer takes in, together with its weights; with "
                  "--data, for bit operations and registers (none: --activations holds)")
      ->type_name("SPEC,...")
      ->group("Formats chosen within a size")
      ->check(not_empty);
  verb.add_option("--sensitivity", flags.sensitivity,
                  "What --target makes small: error, of each tensor over its size; with --data and a network "
                  "also hessian, of "
                  "layers' outputs over theirs; or kl, what each tensor does to predictions (error)")
      ->group("Formats chosen within a size")
      ->check(CLI::IsMember({"error", "hessian", "kl"}));
}

bool TargetFlags::asks_for_network() const {
  const Result<Target> wanted = parse_target(target);
  return !activation_formats.empty() || (wanted.ok() && wanted.value().is_of_networks());
}

std::string measured_as(const std::string& sensitivity) {
  if (sensitivity == "hessian") return "squared error of outputs over their squares";
  return sensitivity == "kl"
             ? "divergence of predictions (of a network that predicts no tokens: squared error of outputs "
               "over their squares)"
             : "squared error over squared norm";
}

namespace {

/// Refuses stages that change how large the network is: a budget counts the network as it is.
void refuse_stages_that_resize(const RecipeFlags& flags) {
  Recipe recipe;
  RecipeFlags stages;
  stages.stages = flags.stages;
  apply_flags(stages, recipe);
  for (const Stage& stage : recipe.stages) {
    if (stage.info().in_floats == InFloats::kShrinks)
      throw usage_error("--target counts the network as it is, and the stage " + stage.name +
                        " makes it smaller: add it to the recipe that --target finds without it");
    if (stage.info().in_floats == InFloats::kGrows)
      throw usage_error(
          "--target counts the network as it is, and the stage " + stage.name +
          " adds numbers or products to it: leave it out, or add it to the recipe that --target "
          "finds without it");
  }
}

}  // namespace

std::optional<Wish> wish_of(const TargetFlags& flags, const RecipeFlags& recipe, bool is_graph) {
  if (flags.target.empty()) {
    if (!flags.formats.empty())
      throw usage_error("--formats is what --target chooses from; give --target too");
    if (!flags.activation_formats.empty())
      throw usage_error("--activation-formats is what --target chooses from; give --target too");
    if (flags.sensitivity != "error")
      throw usage_error("--sensitivity is what --target chooses by; give --target too");
    return std::nullopt;
  }
  const std::pair<const char*, const std::string*> others[] = {
      {"--scheme", &recipe.scheme}, {"--weights", &recipe.weights}, {"--recipe", &recipe.recipe}};
  for (const auto& [flag, value] : others) {
    if (value->empty()) continue;
    throw usage_error("--target chooses the formats that " + std::string(flag) +
                      " names; give one of the two (--set, --embeddings and --exclude may stand beside "
                      "--target)");
  }
  refuse_stages_that_resize(recipe);
  Wish requested;
  const Result<Target> target = parse_target(flags.target);
  if (!target.ok()) throw usage_error("--target: " + target.failure().message);
  requested.target = target.value();
  const bool is_network = is_graph || requested.target.is_of_networks();
  const std::string_view usual = is_network ? kDefaultNetworkFormats : kDefaultFormats;
  requested.formats =
      formats_of("--formats", flags.formats.empty() ? usual : std::string_view(flags.formats), parse_formats);
  if (!flags.activation_formats.empty())
    requested.activations =
        formats_of("--activation-formats", flags.activation_formats, parse_activation_formats);
  refuse_misfits(flags, requested, is_graph);
  return requested;
}

BudgetChoice choose(const Wish& requested, const RecipeFlags& flags, const Checkpoint& checkpoint,
                    uint64_t memory, int threads, Weigh weigh) {
  std::optional<Progress> progress;
  BudgetRequest request{
      .target = requested.target, .formats = requested.formats, .recipe = {}, .measure = {}};
  request.recipe = [&](const QuantSpec& weights, const QuantSpec& embeddings) {
    Recipe recipe;
    recipe.weights = weights;
    recipe.embeddings = embeddings;
    apply_flags(flags, recipe);
    return recipe;
  };
  const SpecOrKeep kv_cache = flags.kv_cache.empty() ? SpecOrKeep() : parse_cache_or_keep(flags.kv_cache);
  request.structure = [&](const std::vector<PlannedTensor>& plan) {
    return jobs::stored_structure(checkpoint, plan, kv_cache);
  };
  request.measure = {.memory = memory, .threads = threads, .progress = {}};
  request.measure.progress = [&](const MeasureProgress& done) {
    if (!progress) progress.emplace("measuring", "tensors", done.all_tensors, done.all_bytes);
    progress->update(done.tensors, done.bytes);
  };
  request.weigh = std::move(weigh);
  return choose_by_budget(checkpoint, request);
}

void note_unused(const Wish& requested, const BudgetChoice& choice, const jobs::QuantizeReport& report,
                 Notes& notes) {
  constexpr double kMuch = 0.01;
  const double used =
      requested.target.file_bytes > 0
          ? static_cast<double>(report.output_bytes) / static_cast<double>(requested.target.file_bytes)
          : report.bits_per_weight / requested.target.bits_per_weight;
  if (used > 1 - kMuch) return;
  notes.say(fixed(100 * (1 - used), 1) + " % of the target is left: " +
            (choice.best_everywhere   ? "every tensor has the format that loses least"
             : choice.recipe.zstd > 0 ? "it counts bytes before zstd, and formats differ by whole bits"
                                      : "no larger choice of these formats within it loses less"));
}

std::filesystem::path recipe_beside(const std::filesystem::path& output) {
  std::filesystem::path path = output;
  if (path.extension() == ".crumb") path.replace_extension();
  path += ".recipe.yaml";
  return path;
}

void refuse_replacing_recipe(const std::filesystem::path& output) {
  const std::filesystem::path path = recipe_beside(output);
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  const OwnFiles own;
  const Result<std::string> found = read_text_file(path, 2 * Recipe::kMaxBytes);
  if (found.ok()) {
    const size_t end = found.value().find('\n');
    if (end != std::string::npos && signed_recipe(output, found.value().substr(end + 1)) == found.value())
      return;
  }
  throw usage_error("the recipe that --target chooses goes to " + quote_text(path.string()) +
                    ", which exists and is not what an earlier --target wrote for " +
                    quote_text(output.filename().string()) + "; move it, or choose another output");
}

void write_recipe(const Recipe& recipe, const std::filesystem::path& output) {
  write_text_file(recipe_beside(output), signed_recipe(output, to_yaml(recipe)));
}

void fill_in(const BudgetChoice& choice, std::vector<TensorReport>& tensors) {
  for (TensorReport& tensor : tensors) {
    const auto found = choice.chosen.find(tensor.name);
    if (found == choice.chosen.end()) continue;
    tensor.sqnr_db = found->second.sqnr_db;
    tensor.max_abs_error = found->second.max_abs_error;
    tensor.saturated_scales = found->second.saturated_scales;
    tensor.is_measured = true;
  }
}

void add_json(const BudgetChoice& choice, const std::string& target, Json& json) {
  json["recipe"] = to_yaml(choice.recipe);
  json["assignment"] = {{"target", target},
                        {"tensors", choice.chosen.size()},
                        {"loss", json_number(choice.loss)},
                        {"bound", json_number(choice.bound)}};
}

void print_choice(const BudgetChoice& choice, const std::string& measure) {
  std::map<std::string, size_t> uses;
  for (const auto& [name, format] : choice.chosen) ++uses[format.spec.to_string()];
  std::cout << "chosen for " << choice.chosen.size() << " tensors, which lose " << fixed(choice.loss, 6)
            << " in all of " << measure;
  if (choice.bound < choice.loss) {
    std::cout << " (no choice loses less than " << fixed(choice.bound, 6) << ")";
  } else {
    std::cout << " (no choice loses less)";
  }
  std::cout << "\n";
  for (const auto& [spec, count] : uses) std::cout << "  " << count << ": " << spec << "\n";
}

}  // namespace crumb::cli
