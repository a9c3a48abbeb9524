// crumb quantize: makes a packed file of a checkpoint; quantize_graph.h is for graphs.
#include "jobs/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/recipe_flags.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/target_flags.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/quantize/quantize_graph.h"
#include "cli/quantize/quantize_report.h"
#include "cli/quantize/target_network.h"
#include "cli/quantize/target_sensitivity.h"
#include "formats/checkpoint/list_tensors.h"
#include "jobs/folder_output.h"
#include "jobs/network_quantization.h"
#include "jobs/quantize_json.h"
#include "jobs/quantize_parts.h"
#include "models/checkpoint_graph.h"

namespace crumb::cli {
namespace {

struct QuantizeFlags {
  std::string input, output;
  std::string key, memory, method;
  std::int64_t trials = 0;  ///< 0: the default
  RecipeFlags recipe;
  TargetFlags target;
  GraphFlags graph;
  int threads = 0;
  bool json = false, dry_run = false, resume = false;
  jobs::ReportFile report;
};

constexpr size_t kWorstListed = 5;

/// What the verb prints of tensors.
struct Outcome {
  jobs::QuantizeReport report;
  std::optional<BudgetChoice> budget;  ///< with --target: the choice and its measurements
};

Json report_json(const QuantizeFlags& options, const Outcome& outcome) {
  Json json = jobs::json_of(outcome.report);
  if (outcome.budget) add_json(*outcome.budget, options.target.target, json);
  return json;
}

/// Prints the tensors that lost most.
void print_worst(std::vector<const TensorReport*> quantized) {
  std::ranges::stable_sort(quantized, {}, [](const TensorReport* t) { return t->sqnr_db; });
  std::cout << "worst tensors:\n";
  std::vector<std::vector<std::string>> rows{{"  name", "shape", "spec", "SQNR dB", "max error"}};
  for (size_t i = 0; i < std::min(quantized.size(), kWorstListed); ++i) {
    const TensorReport& t = *quantized[i];
    rows.push_back(
        {"  " + t.name, shape_text(t.shape), t.spec, fixed(t.sqnr_db, 2), fixed(t.max_abs_error, 6)});
  }
  print_table(rows);
}

/// Prints every tensor, for a dry run.
void print_all(const std::vector<TensorReport>& tensors) {
  std::vector<std::vector<std::string>> rows{{"tensor", "shape", "dtype", "becomes", "bytes"}};
  for (const TensorReport& t : tensors) {
    rows.push_back({t.name, shape_text(t.shape), std::string(dtype_name(t.dtype)),
                    t.spec.empty() ? "kept: " + t.kept_because : t.spec, std::to_string(t.bytes)});
  }
  print_table(rows);
}

void print_report(const QuantizeFlags& options, const Outcome& outcome) {
  const jobs::QuantizeReport& report = outcome.report;
  std::map<std::string, size_t> kept;
  std::vector<const TensorReport*> quantized;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.spec.empty()) {
      ++kept[tensor.kept_because];
    } else {
      quantized.push_back(&tensor);
    }
  }
  if (report.foreseen) print_all(report.tensors);
  std::cout << (report.foreseen ? "dry run: " : "")
            << (options.output.empty() ? "the packed file" : options.output) << ": "
            << (report.upper_bound ? "at most " : "") << size_text(report.input_bytes, report.output_bytes)
            << ", " << fixed(report.bits_per_weight, 3) << " bits per weight, ";
  if (report.foreseen) {
    std::cout << "at most " << megabytes(report.peak_bytes) << " of memory\n"
              << (report.upper_bound ? "(bytes before zstd: the file will be smaller)\n" : "");
  } else {
    std::cout << fixed(report.seconds, 2) << " s\n";
  }
  std::cout << (report.foreseen ? "would quantize " : "quantized ") << quantized.size() << " tensors, "
            << (report.foreseen ? "keep " : "kept ") << report.tensors.size() - quantized.size() << "\n";
  for (const auto& [reason, count] : kept) {
    std::cout << (report.foreseen ? "  keep " : "  kept ") << count << ": " << reason << "\n";
  }
  if (outcome.budget) print_choice(*outcome.budget, measured_as("error"));
  if (!quantized.empty() && !report.foreseen) print_worst(std::move(quantized));
}

/// No file that is written may be one that is read, or one that a person wrote.
void refuse_outputs(const QuantizeFlags& options, const Checkpoint& checkpoint) {
  std::vector<std::filesystem::path> inputs = checkpoint.input_paths();
  if (!options.recipe.recipe.empty()) inputs.emplace_back(options.recipe.recipe);
  refuse_overwriting_inputs(inputs, options.output);
  if (options.target.target.empty()) return;
  refuse_overwriting_inputs(inputs, recipe_beside(options.output));
  refuse_replacing_recipe(options.output);
}

uint64_t memory_of(const QuantizeFlags& options) {
  if (options.memory.empty()) return 0;
  const Result<uint64_t> bytes = parse_byte_size(options.memory);
  if (!bytes.ok()) throw usage_error("--memory: " + bytes.failure().message);
  return bytes.value();
}

/// Whether the recipe, as far as it is known before tensors are looked at, asks for what only graphs have.
bool wants_graph(const QuantizeFlags& options) {
  if (options.graph.any() || options.target.asks_for_network()) return true;
  if (!options.target.target.empty()) {  // the target chooses the rest of it
    Recipe said;
    RecipeFlags flags = options.recipe;
    apply_flags(taken_graph_fields(flags), said);
    return !graph_field_of(said).empty();
  }
  return options.recipe.has_base() && !graph_field_of(recipe_of(options.recipe)).empty();
}

/// Whether the input is a graph, or a checkpoint of whose network something is asked, and shall be taken for one. Throws usage
/// Error where flags are given that the other of the two has.
bool is_graph(const QuantizeFlags& options) {
  std::error_code unknown;
  if (!std::filesystem::exists(options.input, unknown) && !unknown) return false;  // its reader reports that
  const bool is_file = jobs::is_network_file(options.input) && !options.graph.tensors_only;
  const bool found = is_file || (!options.graph.tensors_only && models::is_checkpoint(options.input) &&
                                 wants_graph(options));
  if (!found) {
    if (options.target.asks_for_network())
      throw usage_error(
          "--activation-formats and a --target of bit operations or accumulators are for graphs (.onnx) and "
          "models "
          "of a known architecture (folder, .gguf), found " +
          quote_text(options.input) + (options.graph.tensors_only ? " with --tensors-only" : ""));
    if (!options.graph.any()) return false;
    throw usage_error(
        "--data, --to, --profile, --opset, --shape and --device are for graphs (.onnx) and models of a known "
        "architecture (folder, .gguf), found " +
        quote_text(options.input) + (options.graph.tensors_only ? " with --tensors-only" : ""));
  }
  if (options.key.empty()) return true;
  throw usage_error("--key is for checkpoints, and " + quote_text(options.input) +
                    (is_file ? " is a graph; --tensors-only takes it for a checkpoint"
                             : " is taken for a graph because of what is said of its network"));
}

/// A method that is several stages, or a stage of another name.
struct Method {
  const char *name, *stages;
};
constexpr Method kMethods[] = {{"rounding", "rounding"}, {"awq", "awq,clip"}, {"auto", "best"}};

std::vector<std::string> methods() {
  std::vector<std::string> names;
  for (const Method& method : kMethods) names.emplace_back(method.name);
  for (const StageInfo& stage : stage_infos())
    if (stage.rounds) names.emplace_back(stage.name);
  return names;
}

/// Translates --method and --trials to --stages.
void use_method(const std::string& method, std::int64_t trials, bool has_samples, RecipeFlags& flags) {
  if (trials > 0 && method != "auto") throw usage_error("--trials is for --method auto");
  if (method.empty()) return;
  if (!flags.stages.empty()) throw usage_error("--method and --stages say the same thing; give one of them");
  if (method == "rounding" && !has_samples) return;  // that is the default, also for tensors alone
  const Method* const known =
      std::ranges::find(kMethods, method, [](const Method& one) { return std::string(one.name); });
  flags.stages = known == std::end(kMethods) ? method : known->stages;
  if (trials > 0) flags.stages += ":trials=" + std::to_string(trials);
}

/// Flags that say nothing of what is there: of networks from files, of samples, of networks at all.
void refuse_contradictions(const QuantizeFlags& options) {
  const GraphFlags& graph = options.graph;
  const auto refuse = [](bool is_given, const std::string& what) {
    if (is_given) throw usage_error(what);
  };
  refuse(graph.data.empty() && graph.tokens > 0,
         "--tokens says how much of --data TEXT is taken: give --data");
  refuse(graph.data.empty() && graph.pairs, "--pairs says what lines of --data TEXT hold: give --data");
  refuse(graph.data.empty() && !graph.device.empty(), "--device is where samples run: give --data");
  refuse(graph.tensors_only && !options.recipe.kv_cache.empty(),
         "--kv-cache is of a network, and --tensors-only takes tensors alone");
  if (jobs::is_network_file(options.input) && !graph.tensors_only) return;
  const RecipeFlags& recipe = options.recipe;
  for (const auto& [flag, value] :
       {std::pair("--inputs", &recipe.inputs), std::pair("--batch-norm", &recipe.batch_norm),
        std::pair("--average-pools", &recipe.average_pools)})
    refuse(!value->empty(), std::string(flag) + " is for graphs (.onnx), found " + quote_text(options.input) +
                                (graph.tensors_only ? " with --tensors-only" : ""));
}

void refuse_without_output(const QuantizeFlags& options) {
  if (options.output.empty() && !options.dry_run)
    throw usage_error("quantize needs -o FILE, the packed file to write (or --dry-run)");
}

QuantizeGraph graph_options(const QuantizeFlags& options) {
  return {.input = options.input,
          .output = options.output,
          .recipe = options.recipe,
          .flags = options.graph,
          .threads = options.threads,
          .memory = memory_of(options),
          .json = options.json,
          .dry_run = options.dry_run,
          .resume = options.resume,
          .report = options.report};
}

/// A network by a recipe that a budget chose, and the recipe beside it: rounded, as it was measured, where no stage is named.
void quantize_as_chosen(const QuantizeFlags& options, Recipe recipe, const Json& assignment) {
  if (recipe.stages.empty() && !options.graph.data.empty()) recipe.stages = {parse_stage("rounding")};
  QuantizeGraph chosen = graph_options(options);
  chosen.chosen = recipe;
  chosen.assignment = assignment;
  quantize_graph(chosen);
  if (options.dry_run) {
    if (!options.json) std::cout << "the recipe:\n" << to_yaml(recipe);
    return;
  }
  write_recipe(recipe, options.output);
  if (!options.json) std::cout << "the recipe is " << recipe_beside(options.output).string() << "\n";
}

/// Formats of a network's tensors are chosen, and then it is quantized as a graph.
void quantize_network_by_target(const QuantizeFlags& options, const Wish& requested) {
  refuse_without_output(options);
  const Checkpoint checkpoint = jobs::open_checkpoint(options.input, options.key);
  if (!options.output.empty()) refuse_outputs(options, checkpoint);
  RecipeFlags of_tensors = options.recipe;
  const RecipeFlags of_graphs = taken_graph_fields(of_tensors);
  BudgetChoice choice = choose(requested, of_tensors, checkpoint, 0, options.threads,
                               weigh_by_sensitivity(options.target.sensitivity, options.input, options.graph,
                                                    requested.formats, options.threads));
  apply_flags(of_graphs, choice.recipe);
  for (Rule& rule : choice.recipe.rules)
    rule.optional = true;  // the network may not have some tensors of the file
  if (!options.json) print_choice(choice, measured_as(options.target.sensitivity));
  Json json;
  add_json(choice, options.target.target, json);
  quantize_as_chosen(options, choice.recipe, json.at("assignment"));
}

/// What a network does is budgeted: formats of its layers are chosen.
void quantize_layers_by_target(const QuantizeFlags& options, const Wish& requested) {
  refuse_without_output(options);
  if (!options.output.empty()) refuse_replacing_recipe(options.output);
  const NetworkTarget request{.input = options.input,
                              .recipe = options.recipe,
                              .sensitivity = options.target.sensitivity,
                              .graph = options.graph,
                              .requested = requested,
                              .threads = options.threads,
                              .memory = memory_of(options)};
  const ptq::MixedChoice choice = choose_for_network(request);
  if (!options.json) print_choice(choice, request, options.target.target);
  quantize_as_chosen(options, choice.recipe, assignment_json(choice, options.target.target));
}

/// What the flags say of any request, but for the recipe.
jobs::QuantizeRequest plain_request(const QuantizeFlags& options) {
  jobs::QuantizeRequest request{.input = options.input,
                                .output = options.output,
                                .recipe = {},
                                .key = options.key,
                                .data = {},
                                .batch_axes = {},
                                .device = {},
                                .shapes = {},
                                .arguments = {},
                                .threads = options.threads,
                                .memory = memory_of(options),
                                .dry_run = options.dry_run,
                                .resume = options.resume,
                                .read_files = {},
                                .report = options.report};
  if (!options.recipe.recipe.empty()) request.read_files.emplace_back(options.recipe.recipe);
  return request;
}

/// Before anything is read.
void claim_outputs(const QuantizeFlags& options) {
  if (options.output.empty() || options.dry_run) return;
  jobs::QuantizeRequest request = plain_request(options);
  request.data = options.graph.data;
  jobs::claim_output_of(request);
  if (options.target.target.empty()) return;
  refuse_overwriting_inputs(jobs::inputs_of(request), recipe_beside(options.output));
  claim_output(recipe_beside(options.output));
}

void quantize_verb(const QuantizeFlags& options) {
  claim_outputs(options);
  jobs::refuse_packed(options.input);
  refuse_contradictions(options);
  if (is_graph(options)) {
    const bool is_file = !models::is_checkpoint(options.input);
    if (const std::optional<Wish> requested = wish_of(options.target, options.recipe, is_file)) {
      if (is_file || requested->target.is_of_networks())
        return quantize_layers_by_target(options, *requested);
      return quantize_network_by_target(options, *requested);
    }
    return quantize_graph(graph_options(options));
  }
  jobs::refuse_ending(options.output, "a packed file is written", terminal(), ".crumb");
  const std::optional<Wish> requested = wish_of(options.target, options.recipe, false);
  if (options.target.sensitivity != "error")
    throw usage_error("--sensitivity " + options.target.sensitivity + " is measured on samples: give --data");
  jobs::QuantizeRequest request = plain_request(options);
  request.as = jobs::QuantizeRequest::As::kTensors;
  if (!requested) request.recipe = recipe_of(options.recipe);
  refuse_without_output(options);
  const double start = now_seconds();
  Outcome outcome;
  Notes of_target;
  if (requested) {
    const Checkpoint checkpoint = jobs::open_checkpoint(options.input, options.key);
    if (!options.output.empty()) refuse_outputs(options, checkpoint);
    outcome.budget = choose(*requested, options.recipe, checkpoint, request.memory, options.threads);
    request.recipe = outcome.budget->recipe;
  }
  outcome.report = jobs::quantize(request, terminal());
  if (requested) {
    if (options.dry_run) {
      fill_in(*outcome.budget, outcome.report.tensors);
      jobs::note_saturated(outcome.report.tensors, of_target);
    } else {
      write_recipe(request.recipe, options.output);
      outcome.report.seconds = now_seconds() - start;  // with the time of choosing
    }
    note_unused(*requested, *outcome.budget, outcome.report, of_target);
    std::ranges::copy(of_target.all(), std::back_inserter(outcome.report.notes));
  }
  if (options.json) return print_json(report_json(options, outcome));
  print_report(options, outcome);
  if (!requested) return;
  if (options.dry_run) {
    std::cout << "the recipe:\n" << to_yaml(request.recipe);
  } else {
    std::cout << "the recipe is " << recipe_beside(options.output).string() << "\n";
  }
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeFlags>();
  CLI::App* verb = app.add_subcommand("quantize", "Quantize a checkpoint into one packed file, or a graph");
  verb->add_option("input", options->input, "A Hugging Face folder, " + std::string(kTensorFiles))
      ->type_name("MODEL")
      ->required();
  verb->add_option("-o,--output", options->output, "The packed file to write; of a graph, .onnx or .crumb")
      ->type_name("FILE")
      ->group(kOutputFlags);
  verb->add_option("--key", options->key,
                   "The entry of a PyTorch file that is the model, as in model or ema.model")
      ->type_name("NAME")
      ->group(kInputFlags);
  add_recipe_flags(*verb, options->recipe);
  verb->add_option(
          "--method", options->method,
          "Of a network: rounding, each weight by itself; a stage that rounds, as in gptq for --stages gptq; "
          "awq, for "
          "--stages awq,clip; or "
          "auto, what is best for each layer (with --data gptq where a layer loses less, else rounding)")
      ->group(kQuantizationFlags)
      ->check(CLI::IsMember(methods()));
  verb->add_option("--trials", options->trials, "Of --method auto: ways to round that each layer tries (4)")
      ->type_name("COUNT")
      ->group(kQuantizationFlags)
      ->check(at_least(1, kWaysOfBest));
  add_target_flags(*verb, options->target);
  add_graph_flags(*verb, options->graph);
  verb->add_flag("--dry-run", options->dry_run,
                 "Write nothing; say what would become of every tensor, the file's size and the memory")
      ->group(kOutputFlags);
  verb->add_flag("--resume", options->resume,
                 "Go on where an interrupted run ended, and leave what this one does not finish")
      ->group(kOutputFlags);
  verb->add_option(
          "--memory", options->memory,
          "Stay below SIZE of resident memory, as in 500MB (twice the largest tensor and 200 MB); of stages "
          "on "
          "samples: so much of what samples bring from layer to layer, and a file for the rest (256MiB)")
      ->type_name("SIZE")
      ->group(kRunningFlags);
  add_threads_flag(*verb, options->threads, "Threads, which never change the result (those the machine has)");
  add_report_flag(*verb, options->report);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "Rules win over fields, and later rules over earlier ones, in the order recipe, include, exclude,\n"
      "embeddings, set. A GLOB names tensors or the layers that own them; * crosses dots. --include and "
      "--set\n"
      "reach every floating tensor that matches; a recipe's rule only weights and embedding tables, unless "
      "it\n"
      "says role: any.\n"
      "crumb formats lists the number formats.\n\n" +
      spec_grammar() +
      "\n\nExample:\n"
      "  crumb quantize all-MiniLM-L6-v2 -o minilm.crumb --scheme W4A16 --set '*.value.weight=int8:channel'\n"
      "  crumb quantize cnn.onnx -o cnn_w8a8.onnx --scheme W8A8 --data samples.npy --report cnn.html\n"
      "  crumb quantize SmolLM2 -o w4a8.crumb --weights int4:group=32 --activations int8:token --kv-cache "
      "int8");
  verb->callback([options] {
    use_method(options->method, options->trials, !options->graph.data.empty(), options->recipe);
    quantize_verb(*options);
  });
}

}  // namespace crumb::cli
