// crumb merge: merges adapters into the matrices that they adapt.
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "cli/flags/dtype_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/verb.h"
#include "cli/folder_output.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/train/merge_training.h"
#include "cli/train/merged_recipe.h"
#include "export/folder/merged_source.h"
#include "graph/adapters.h"
#include "graph/packed/crumb_graph.h"
#include "jobs/folder_files.h"
#include "jobs/language/adapter_files.h"
#include "jobs/packed_files.h"
#include "models/configured_network.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "training/run_folder.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

struct MergeFlags {
  std::string model, output, weights, shard = kUsualShard, dtype;
  std::vector<std::string> adapters;
  MergeTrainingFlags training;
  bool json = false;
};

/// Returns text such as "3.1e-05".
std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

void merge_into_floats(const MergeFlags& flags, const std::vector<Adapter>& adapters) {
  if (!flags.weights.empty())
    throw usage_error("--weights is for -o FILE.crumb; a folder has the matrices in floats");
  const exporting::FloatSource source(flags.model, exporting::FloatTypes::kAsStored);
  const exporting::MergedSource merged(source, adapters);
  Notes notes;
  for (const std::string& note : models::notes_of_quantizers(source.source())) notes.say(note);
  if (source.unused_head()) notes.say(models::note_of_unused_head(*source.unused_head()));
  exporting::FolderReport report;
  const std::string cost =
      write_with_dtype(merged, flags.dtype, [&](const exporting::FolderContent& content) {
        report = write_folder_with_notes(content, flags.output,
                                         {.shard_bytes = shard_bytes_of(flags.shard, "--shard"),
                                          .input = flags.model,
                                          .metadata = {{"format", "pt"}, {"writer", "crumb merge"}}},
                                         "merging", flags.shard);
      });
  if (!cost.empty()) notes.say(cost);
  if (flags.json)
    return print_json({{"merged", merged.merged()}, {"tensors", report.tensors}, {"files", report.files}});
  std::cout << "merged into " << count_text(merged.merged(), "matrix", "matrices") << " of "
            << count_text(report.tensors, "tensor") << ": " << flags.output << "\n";
}

/// Returns the packed file's other files.
std::map<std::string, std::string> merged_files(const MergeFlags& flags, const TensorSource& source,
                                                const graph::Graph& merged) {
  std::map<std::string, std::string> files = jobs::packed_files(source);
  if (!flags.weights.empty()) name_codes(files, merged);
  return files;
}

void merge_onto_grid(const MergeFlags& flags, const TensorSource& source, const text::ReadFile& read) {
  const graph::MergedGraph merged = graph::merge_adapters(
      jobs::with_adapters(models::open_graph(flags.model), flags.adapters, read), flags.weights);
  graph::write_crumb_graph(
      merged.graph, flags.output,
      {.reads_back = true, .as_checkpoint = true, .files = merged_files(flags, source, merged.graph)});
  if (flags.json) {
    Json layers = Json::array();
    for (const graph::MergedLayer& layer : merged.layers)
      layers.push_back({{"layer", layer.module}, {"update", layer.update}, {"error", layer.error}});
    return print_json({{"layers", std::move(layers)}, {"bytes", fs::file_size(flags.output)}});
  }
  std::vector<std::vector<std::string>> table{{"layer", "the adapter adds", "rounding takes"}};
  double update = 0, error = 0;
  for (const graph::MergedLayer& layer : merged.layers) {
    table.push_back({layer.module, short_text(layer.update), short_text(layer.error)});
    update += layer.update;
    error += layer.error;
  }
  print_table(table);
  std::cout << "squared, over the matrix' own; together " << short_text(update) << " and "
            << short_text(error)
            << (error > update ? ": the grid takes more than the adapter adds; keep it beside the codes\n"
                               : "\n")
            << flags.output << ", " << megabytes(fs::file_size(flags.output)) << "\n";
}

void merge_and_train(const MergeFlags& flags, const TensorSource& source, const text::ReadFile& read) {
  graph::Graph adapted = jobs::with_adapters(models::open_graph(flags.model), flags.adapters, read);
  graph::Graph merged = graph::merge_adapters(adapted, flags.weights).graph;
  if (merged.quantized.empty())
    throw usage_error(quote_text(flags.model) +
                      " has its matrices in floats, into which adapters go exactly: there is nothing "
                      "to train; --weights SPEC quantizes them");
  std::vector<std::filesystem::path> inputs{flags.model, flags.training.data, flags.training.valid,
                                            flags.training.training.teacher_logits};
  inputs.insert(inputs.end(), flags.adapters.begin(), flags.adapters.end());
  jobs::claim_folder_files(inputs, flags.output, training::kLanguageFiles);
  std::map<std::string, std::string> files = merged_files(flags, source, merged);
  const Json report =
      train_merged(flags.training, std::move(adapted), std::move(merged), std::move(files), flags.output);
  if (report.is_null()) return;  // another process has the report
  if (flags.json) return print_json(report);
  print_table({{report.at("metric"), "with adapters", "merged", "trained"},
               {"", measure_text(report, "float"), measure_text(report, "rounded"),
                measure_text(report, "quantized")}});
  std::cout << report.at("steps") << " steps, " << report.at("trained_tokens") << " tokens, "
            << fixed(report.at("seconds"), 0) << " s: " << flags.output
            << "/{model.crumb, log.jsonl, report.json}, "
            << megabytes(report.at("bytes").get<std::uint64_t>()) << "\n";
}

/// Called before anything is read.
void claim(const MergeFlags& flags) {
  if (flags.training.is_wanted()) return;  // a run goes on in its folder
  std::vector<fs::path> inputs{flags.model};
  inputs.insert(inputs.end(), flags.adapters.begin(), flags.adapters.end());
  refuse_overwriting_inputs(inputs, flags.output);
  if (fs::path(flags.output).extension() == ".crumb") return claim_output(flags.output);
  claim_folder(flags.model, flags.output);
}

void merge_verb(const MergeFlags& flags) {
  claim(flags);
  const TensorSource source = TensorSource::open(flags.model);
  const auto weights = models::weights_of(source);
  const auto read = [&](std::string_view path) { return weights->file(path); };
  if (flags.training.is_wanted()) return merge_and_train(flags, source, read);
  if (fs::path(flags.output).extension() == ".crumb") return merge_onto_grid(flags, source, read);
  std::vector<Adapter> adapters;
  if (source.crumb()) {
    const graph::Graph graph = models::open_graph(flags.model);
    for (const std::string& name : graph::adapter_names(graph))
      adapters.push_back(graph::adapter_of(graph, name));
  }
  for (Adapter& adapter : jobs::read_adapters(flags.adapters, read)) adapters.push_back(std::move(adapter));
  if (adapters.empty()) throw usage_error(quote_text(flags.model) + " has no adapter; give --adapter PATH");
  merge_into_floats(flags, adapters);
}

}  // namespace

void add_merge(CLI::App& app) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* verb = app.add_subcommand("merge", "Put low-rank adapters into the matrices beside them");
  verb->add_option("model", flags->model,
                   "A packed file, with adapters in it or not, a Hugging Face folder or a GGUF file")
      ->type_name("MODEL")
      ->required();
  add_adapter_flag(*verb, flags->adapters);
  verb->add_option(
          "-o,--output", flags->output,
          "A folder, with the matrices in floats, or FILE.crumb: quantized again, with what that costs")
      ->type_name("FILE|FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option("--weights", flags->weights,
                   "Of FILE.crumb: how merged matrices are quantized (as they were)")
      ->type_name("SPEC")
      ->group(kOutputFlags);
  CLI::Option* const shard =
      verb->add_option("--shard", flags->shard, "Of a folder: tensor files of at most this size (5GB)")
          ->type_name("SIZE")
          ->group(kOutputFlags);
  CLI::Option* const dtype = add_dtype_flag(*verb, flags->dtype);
  const std::vector<CLI::Option*> of_training = add_merge_training_flags(*verb, flags->training);
  verb->add_flag("--json", flags->json, "Print what was merged as JSON")->group(kOutputFlags);
  verb->footer(
      "Examples:\n"
      "  crumb merge recovered/model.crumb -o merged\n"
      "  crumb merge SmolLM2 --adapter my_lora -o merged\n"
      "  crumb merge recovered/model.crumb --train text.txt --steps 100 -o retrained");
  verb->callback([flags, of_training, shard, dtype] {
    const bool is_folder = !flags->training.is_wanted() && fs::path(flags->output).extension() != ".crumb";
    if (dtype->count() > 0 && !is_folder)
      throw usage_error(
          "--dtype is for a folder in floats, found " +
          std::string(flags->training.is_wanted() ? "--train" : "-o " + quote_text(flags->output)));
    if (flags->training.is_wanted() && shard->count() > 0)
      throw usage_error("--shard is for a folder in floats, and --train writes a packed file into its own");
    if (fs::path(flags->output).extension() == ".crumb" && shard->count() > 0)
      throw usage_error("--shard is for a folder in floats, found -o " + quote_text(flags->output));
    if (!flags->training.is_wanted()) refuse_without_train(of_training);
    merge_verb(*flags);
  });
}

}  // namespace crumb::cli
