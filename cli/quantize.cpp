// crumb quantize: a checkpoint becomes a packed file; a graph is for quantize_graph.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/output_place.h"
#include "base/files/process_memory.h"
#include "base/files/text.h"
#include "base/text/byte_size.h"
#include "base/within.h"
#include "cli/flag_group.h"
#include "cli/folder_output.h"
#include "cli/inspect_graph.h"
#include "cli/notes.h"
#include "cli/number_checks.h"
#include "cli/output.h"
#include "cli/quantize_graph.h"
#include "cli/quantize_network.h"
#include "cli/quantize_report.h"
#include "cli/recipe_flags.h"
#include "cli/target_flags.h"
#include "cli/target_network.h"
#include "cli/target_sensitivity.h"
#include "cli/threads_flag.h"
#include "cli/verb.h"
#include "formats/checkpoint/list_tensors.h"
#include "formats/crumb_file/writer.h"
#include "models/checkpoint_graph.h"
#include "models/tied_head.h"
#include "ptq/layer_files.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/checkpoint/run_journal.h"

namespace crumb::cli {
namespace {

struct QuantizeOptions {
  std::string input, output;
  std::string key, memory, method;
  std::int64_t trials = 0;  ///< 0: the usual
  RecipeFlags recipe;
  TargetFlags target;
  GraphFlags graph;
  int threads = 0;
  bool json = false, dry_run = false, resume = false;
};

constexpr size_t kWorstListed = 5;

/// What the verb tells: what a run did, or what one would do.
struct Outcome {
  CheckpointReport report;
  bool foreseen = false;     ///< dry run: nothing that depends on the data is known
  bool upper_bound = false;  ///< bytes are at most these, because zstd will make them fewer
  double seconds = 0;
  uint64_t peak_bytes = 0;                 ///< of resident memory
  std::optional<BudgetChoice> budget;      ///< with --target: what was chosen, and measured for it
  std::optional<std::string> dequantized;  ///< Checkpoint::dequantized()
  std::vector<SkippedEntry> skipped;       ///< what the source's files hold beside tensors
  std::vector<std::string> notes;          ///< what else was said on stderr

  /// Whether errors of a tensor are known.
  bool measured(const TensorReport& tensor) const {
    return !foreseen || (budget && budget->chosen.contains(tensor.name));
  }
};

QuantizeTotals totals_of(const QuantizeOptions& options, const Outcome& outcome) {
  QuantizeTotals totals{.input = options.input,
                        .output = options.output,
                        .input_bytes = outcome.report.input_bytes,
                        .output_bytes = outcome.report.output_bytes,
                        .bits_per_weight = outcome.report.bits_per_weight,
                        .seconds = {},
                        .peak_bytes = outcome.peak_bytes,
                        .foreseen = outcome.foreseen,
                        .upper_bound = outcome.upper_bound};
  if (!outcome.foreseen) totals.seconds = outcome.seconds;
  return totals;
}

Json report_json(const QuantizeOptions& options, const Outcome& outcome) {
  Json json = totals_json(totals_of(options, outcome));
  json["tensors"] = Json::array();
  for (const TensorReport& tensor : outcome.report.tensors)
    json["tensors"].push_back(tensor_json(tensor, outcome.measured(tensor)));
  for (const char* of_networks : {"stages", "activations", "biases", "outputs"})
    json[of_networks] = Json::array();
  json["skipped"] = skipped_json(outcome.skipped);
  if (outcome.dequantized) json["dequantized"] = *outcome.dequantized;
  json["notes"] = outcome.notes;
  if (outcome.budget) add_json(*outcome.budget, options.target.target, json);
  return json;
}

/// The tensors that lost most.
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

/// What a dry run is for: every tensor.
void print_all(const std::vector<TensorReport>& tensors) {
  std::vector<std::vector<std::string>> rows{{"tensor", "shape", "dtype", "becomes", "bytes"}};
  for (const TensorReport& t : tensors) {
    rows.push_back({t.name, shape_text(t.shape), std::string(dtype_name(t.dtype)),
                    t.spec.empty() ? "kept: " + t.kept_because : t.spec, std::to_string(t.bytes)});
  }
  print_table(rows);
}

void print_report(const QuantizeOptions& options, const Outcome& outcome) {
  const CheckpointReport& report = outcome.report;
  std::map<std::string, size_t> kept;
  std::vector<const TensorReport*> quantized;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.spec.empty()) {
      ++kept[tensor.kept_because];
    } else {
      quantized.push_back(&tensor);
    }
  }
  if (outcome.foreseen) print_all(report.tensors);
  std::cout << (outcome.foreseen ? "dry run: " : "")
            << (options.output.empty() ? "the packed file" : options.output) << ": "
            << (outcome.upper_bound ? "at most " : "") << size_text(report.input_bytes, report.output_bytes)
            << ", " << fixed(report.bits_per_weight, 3) << " bits per weight, ";
  if (outcome.foreseen) {
    std::cout << "at most " << megabytes(outcome.peak_bytes) << " of memory\n"
              << (outcome.upper_bound ? "(bytes before zstd: the file will be smaller)\n" : "");
  } else {
    std::cout << fixed(outcome.seconds, 2) << " s\n";
  }
  std::cout << (outcome.foreseen ? "would quantize " : "quantized ") << quantized.size() << " tensors, "
            << (outcome.foreseen ? "keep " : "kept ") << report.tensors.size() - quantized.size() << "\n";
  for (const auto& [reason, count] : kept) {
    std::cout << (outcome.foreseen ? "  keep " : "  kept ") << count << ": " << reason << "\n";
  }
  if (outcome.budget) print_choice(*outcome.budget, measured_as("error"));
  if (!quantized.empty() && !outcome.foreseen) print_worst(std::move(quantized));
}

void note_conversions(const CheckpointReport& report, Notes& notes) {
  size_t rounded = 0;
  uint64_t saturated = 0;
  for (const TensorReport& tensor : report.tensors) {
    rounded += !tensor.spec.empty() && tensor.dtype == DType::kF64;
    saturated += tensor.saturated_scales;
  }
  if (rounded > 0)
    notes.say(std::to_string(rounded) + " F64 tensors are rounded to float32 before quantization");
  if (saturated > 0)
    notes.say(std::to_string(saturated) + " scales did not fit their format and were saturated");
}

/// Throws, too, where its head is not the one that its configuration means.
Checkpoint open_checkpoint(const QuantizeOptions& options) {
  Checkpoint checkpoint = Checkpoint::open(options.input, {.key = options.key}).take();
  try {
    models::expect_tied_head(checkpoint);
  } catch (const Error& error) {
    throw within_file(quote_text(options.input), error);
  }
  return checkpoint;
}

/// No file that is written may be one that is read, or one that a person wrote.
void refuse_outputs(const QuantizeOptions& options, const Checkpoint& checkpoint) {
  std::vector<std::filesystem::path> inputs = checkpoint.input_paths();
  if (!options.recipe.recipe.empty()) inputs.emplace_back(options.recipe.recipe);
  refuse_overwriting_inputs(inputs, options.output);
  if (options.target.target.empty()) return;
  refuse_overwriting_inputs(inputs, recipe_beside(options.output));
  refuse_replacing_recipe(options.output);
}

uint64_t memory_of(const QuantizeOptions& options) {
  if (options.memory.empty()) return 0;
  const Result<uint64_t> bytes = parse_byte_size(options.memory);
  if (!bytes.ok()) throw usage_error("--memory: " + bytes.failure().message);
  return bytes.value();
}

Outcome run_outcome(const QuantizeOptions& options, const Checkpoint& checkpoint,
                    const std::vector<PlannedTensor>& plan, const RunPlan& run) {
  Outcome outcome;
  RunOptions wanted{.threads = options.threads, .resume = options.resume, .version = CRUMB_VERSION};
  std::uint64_t all = 0;  // bytes as they are read: blocks of another tool's codes are floats then
  for (const PlannedTensor& tensor : plan) all += tensor.entry->bytes;
  Progress progress("quantizing", "tensors", plan.size(), all);
  wanted.progress = [&](size_t tensors, uint64_t bytes) { progress.update(tensors, bytes); };
  wanted.continuing = [&](size_t tensors) {
    if (tensors > 0) {
      std::fprintf(stderr, "note: continuing after %zu tensors that an earlier run finished\n", tensors);
    } else {
      std::fprintf(stderr, "note: there is nothing to continue; starting afresh\n");
    }
  };
  wanted.locked = [&](const RunIdentity& identity) {
    ptq::LayerFiles::settle(options.output, identity, options.resume);
  };
  outcome.report = quantize_checkpoint(checkpoint, plan, run, options.output, wanted);
  outcome.peak_bytes = peak_resident_bytes();
  return outcome;
}

/// Whether the recipe, as far as it is known before tensors are looked at, asks for what only graphs have.
bool wants_graph(const QuantizeOptions& options) {
  if (options.graph.any() || options.target.asks_for_network()) return true;
  if (!options.target.target.empty()) {  // which chooses the rest of it
    Recipe said;
    RecipeFlags flags = options.recipe;
    apply_flags(taken_graph_fields(flags), said);
    return !graph_field_of(said).empty();
  }
  return options.recipe.has_base() && !graph_field_of(recipe_of(options.recipe)).empty();
}

/// Whether the input is a graph, or a checkpoint of whose network something is asked, and shall be taken for one. Throws usage
/// Error where flags are given that the other of the two has.
bool is_graph(const QuantizeOptions& options) {
  std::error_code unknown;
  if (!std::filesystem::exists(options.input, unknown) && !unknown) return false;  // which its reader says
  const bool is_file = is_graph_file(options.input) && !options.graph.tensors_only;
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

/// Methods that are several stages, or one of another name.
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

/// --method and --trials become --stages.
void use_method(const std::string& method, std::int64_t trials, bool has_samples, RecipeFlags& flags) {
  if (trials > 0 && method != "auto") throw usage_error("--trials is for --method auto");
  if (method.empty()) return;
  if (!flags.stages.empty()) throw usage_error("--method and --stages say the same thing; give one of them");
  if (method == "rounding" && !has_samples) return;  // what is done anyhow, of tensors alone, too
  const Method* const known =
      std::ranges::find(kMethods, method, [](const Method& one) { return std::string(one.name); });
  flags.stages = known == std::end(kMethods) ? method : known->stages;
  if (trials > 0) flags.stages += ":trials=" + std::to_string(trials);
}

/// Flags that say nothing of what is there: of networks from files, of samples, of networks at all.
void refuse_unmeant(const QuantizeOptions& options) {
  const GraphFlags& graph = options.graph;
  const auto refuse = [](bool is_given, const std::string& what) {
    if (is_given) throw usage_error(what);
  };
  refuse(graph.data.empty() && graph.tokens > 0,
         "--tokens says how much of --data TEXT is taken: give --data");
  refuse(graph.data.empty() && !graph.device.empty(), "--device is where samples run: give --data");
  refuse(graph.tensors_only && !options.recipe.kv_cache.empty(),
         "--kv-cache is of a network, and --tensors-only takes tensors alone");
  if (is_graph_file(options.input) && !graph.tensors_only) return;
  const RecipeFlags& recipe = options.recipe;
  for (const auto& [flag, value] :
       {std::pair("--inputs", &recipe.inputs), std::pair("--batch-norm", &recipe.batch_norm),
        std::pair("--average-pools", &recipe.average_pools)})
    refuse(!value->empty(), std::string(flag) + " is for graphs (.onnx), found " + quote_text(options.input) +
                                (graph.tensors_only ? " with --tensors-only" : ""));
}

void refuse_without_output(const QuantizeOptions& options) {
  if (options.output.empty() && !options.dry_run)
    throw usage_error("quantize needs -o FILE, the packed file to write (or --dry-run)");
}

QuantizeGraph graph_options(const QuantizeOptions& options) {
  return {.input = options.input,
          .output = options.output,
          .recipe = options.recipe,
          .flags = options.graph,
          .threads = options.threads,
          .memory = memory_of(options),
          .json = options.json,
          .dry_run = options.dry_run,
          .resume = options.resume};
}

/// A network by a recipe that a budget chose, and the recipe beside it: rounded, as it was measured, where no stage is named.
void quantize_as_chosen(const QuantizeOptions& options, Recipe recipe, const Json& assignment) {
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
void quantize_network_by_target(const QuantizeOptions& options, const Wish& wish) {
  refuse_without_output(options);
  const Checkpoint checkpoint = open_checkpoint(options);
  if (!options.output.empty()) refuse_outputs(options, checkpoint);
  RecipeFlags of_tensors = options.recipe;
  const RecipeFlags of_graphs = taken_graph_fields(of_tensors);
  BudgetChoice choice = choose(wish, of_tensors, checkpoint, 0, options.threads,
                               weigh_by_sensitivity(options.target.sensitivity, options.input, options.graph,
                                                    wish.formats, options.threads));
  apply_flags(of_graphs, choice.recipe);
  for (Rule& rule : choice.recipe.rules)
    rule.optional = true;  // the network may leave tensors of the file out
  if (!options.json) print_choice(choice, measured_as(options.target.sensitivity));
  Json json;
  add_json(choice, options.target.target, json);
  quantize_as_chosen(options, choice.recipe, json.at("assignment"));
}

/// What a network does is budgeted: formats of its layers are chosen.
void quantize_layers_by_target(const QuantizeOptions& options, const Wish& wish) {
  refuse_without_output(options);
  if (!options.output.empty()) refuse_replacing_recipe(options.output);
  const NetworkTarget request{.input = options.input,
                              .recipe = options.recipe,
                              .sensitivity = options.target.sensitivity,
                              .graph = options.graph,
                              .wish = wish,
                              .threads = options.threads,
                              .memory = memory_of(options)};
  const ptq::MixedChoice choice = choose_for_network(request);
  if (!options.json) print_choice(choice, request, options.target.target);
  quantize_as_chosen(options, choice.recipe, assignment_json(choice, options.target.target));
}

/// Before anything is read.
void claim_outputs(const QuantizeOptions& options) {
  if (options.output.empty() || options.dry_run) return;
  std::vector<std::filesystem::path> inputs{options.input, options.recipe.recipe};
  for (const std::string& data : options.graph.data) {
    inputs.emplace_back(data);
    inputs.emplace_back(data.substr(data.find('=') + 1));
  }
  refuse_overwriting_inputs(inputs, options.output);
  claim_output(options.output, options.resume ? LeftOver::kContinue : LeftOver::kDiscard,
               {RunJournal::path_of(options.output)});
  if (options.target.target.empty()) return;
  refuse_overwriting_inputs(inputs, recipe_beside(options.output));
  claim_output(recipe_beside(options.output));
}

void quantize_verb(const QuantizeOptions& options) {
  claim_outputs(options);
  refuse_packed(options.input);
  refuse_unmeant(options);
  if (is_graph(options)) {
    const bool is_file = !models::is_checkpoint(options.input);
    if (const std::optional<Wish> wish = wish_of(options.target, options.recipe, is_file)) {
      if (is_file || wish->target.is_of_networks()) return quantize_layers_by_target(options, *wish);
      return quantize_network_by_target(options, *wish);
    }
    return quantize_graph(graph_options(options));
  }
  refuse_ending(options.output, "a packed file is written", ".crumb");
  const double start = now_seconds();
  const std::optional<Wish> wish = wish_of(options.target, options.recipe, false);
  if (options.target.sensitivity != "error")
    throw usage_error("--sensitivity " + options.target.sensitivity + " is measured on samples: give --data");
  Recipe recipe = wish ? Recipe{} : recipe_of(options.recipe);
  const uint64_t memory = memory_of(options);
  refuse_without_output(options);
  const Checkpoint checkpoint = open_checkpoint(options);
  Notes notes;
  note_checkpoint(checkpoint);
  note_folder(checkpoint, notes);
  if (!options.output.empty()) refuse_outputs(options, checkpoint);
  std::optional<BudgetChoice> budget;
  const uint64_t base = baseline_bytes();
  if (wish) {
    budget = choose(*wish, options.recipe, checkpoint, memory, options.threads);
    recipe = budget->recipe;
  }
  const std::vector<PlannedTensor> plan = plan_checkpoint(checkpoint, recipe);
  const RunPlan run = plan_run(checkpoint, plan, recipe, memory, options.threads, base,
                               stored_structure(checkpoint, plan, recipe.kv_cache));
  Outcome outcome;
  if (options.dry_run) {
    outcome = {.report = foresee_report(checkpoint, plan, run),
               .foreseen = true,
               .upper_bound = recipe.zstd > 0,
               .peak_bytes = run.peak_memory_bytes,
               .budget = std::nullopt,
               .skipped = {},
               .notes = {}};
    if (budget) fill_in(*budget, outcome.report);
  } else {
    outcome = run_outcome(options, checkpoint, plan, run);
    if (budget) write_recipe(budget->recipe, options.output);
    outcome.seconds = now_seconds() - start;
  }
  note_conversions(outcome.report, notes);
  if (budget) note_unused(*wish, *budget, outcome.report, notes);
  outcome.budget = std::move(budget);
  outcome.skipped = checkpoint.skipped();
  outcome.dequantized = checkpoint.dequantized();
  outcome.notes = notes.all();
  if (options.json) return print_json(report_json(options, outcome));
  print_report(options, outcome);
  if (!wish) return;
  if (options.dry_run) {
    std::cout << "the recipe:\n" << to_yaml(recipe);
  } else {
    std::cout << "the recipe is " << recipe_beside(options.output).string() << "\n";
  }
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
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
      "  crumb quantize cnn.onnx -o cnn_w8a8.onnx --scheme W8A8 --data samples.npy\n"
      "  crumb quantize SmolLM2 -o w4a8.crumb --weights int4:group=32 --activations int8:token --kv-cache "
      "int8");
  verb->callback([options] {
    use_method(options->method, options->trials, !options->graph.data.empty(), options->recipe);
    quantize_verb(*options);
  });
}

}  // namespace crumb::cli
