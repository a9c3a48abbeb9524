// crumb merge: adapters go into the matrices that they stand beside.
#include "jobs/merge.h"

#include <cstdio>
#include <iostream>
#include <memory>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/flags/dtype_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/train/language_training.h"
#include "cli/train/merge_training.h"

namespace crumb::cli {
namespace {

struct MergeFlags {
  jobs::MergeRequest request;
  jobs::MergeTraining training;  ///< --train and its flags
  bool json = false;
};

/// Returns text such as "3.1e-05".
std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

void print_floats(const MergeFlags& flags, const jobs::MergeReport& report) {
  if (flags.json)
    return print_json({{"merged", report.matrices}, {"tensors", report.tensors}, {"files", report.files}});
  std::cout << "merged into " << count_text(report.matrices, "matrix", "matrices") << " of "
            << count_text(report.tensors, "tensor") << ": " << flags.request.output << "\n";
}

void print_codes(const MergeFlags& flags, const jobs::MergeReport& report) {
  if (flags.json) {
    Json layers = Json::array();
    for (const auto& layer : report.layers)
      layers.push_back({{"layer", layer.module}, {"update", layer.update}, {"error", layer.error}});
    return print_json({{"layers", std::move(layers)}, {"bytes", report.bytes}});
  }
  std::vector<std::vector<std::string>> table{{"layer", "the adapter adds", "rounding takes"}};
  double update = 0, error = 0;
  for (const auto& layer : report.layers) {
    table.push_back({layer.module, short_text(layer.update), short_text(layer.error)});
    update += layer.update;
    error += layer.error;
  }
  print_table(table);
  std::cout << "squared, over the matrix' own; together " << short_text(update) << " and "
            << short_text(error)
            << (error > update ? ": the grid takes more than the adapter adds; keep it beside the codes\n"
                               : "\n")
            << flags.request.output << ", " << megabytes(report.bytes) << "\n";
}

void print_trained(const MergeFlags& flags, const Json& report) {
  if (report.is_null()) return;  // another process has it
  if (flags.json) return print_json(report);
  print_table({{report.at("metric"), "with adapters", "merged", "trained"},
               {"", measure_text(report, "float"), measure_text(report, "rounded"),
                measure_text(report, "quantized")}});
  std::cout << report.at("steps") << " steps, " << report.at("trained_tokens") << " tokens, "
            << fixed(report.at("seconds"), 0) << " s: " << flags.request.output
            << "/{model.crumb, log.jsonl, report.json}, "
            << megabytes(report.at("bytes").get<std::uint64_t>()) << "\n";
}

void merge_verb(const MergeFlags& flags) {
  const jobs::MergeReport report = jobs::merge(flags.request, terminal());
  if (flags.request.training) return print_trained(flags, report.training);
  report.wrote_codes ? print_codes(flags, report) : print_floats(flags, report);
}

}  // namespace

void add_merge(CLI::App& app) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* verb = app.add_subcommand("merge", "Put low-rank adapters into the matrices beside them");
  verb->add_option("model", flags->request.input,
                   "A packed file, with adapters in it or not, a Hugging Face folder or a GGUF file")
      ->type_name("MODEL")
      ->required();
  add_adapter_flag(*verb, flags->request.adapters);
  verb->add_option(
          "-o,--output", flags->request.output,
          "A folder, with the matrices in floats, or FILE.crumb: quantized again, with what that costs")
      ->type_name("FILE|FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option("--weights", flags->request.weights,
                   "Of FILE.crumb: how merged matrices are quantized (as they were)")
      ->type_name("SPEC")
      ->group(kOutputFlags);
  verb->add_option("--shard", flags->request.shard, "Of a folder: tensor files of at most this size (5GB)")
      ->type_name("SIZE")
      ->group(kOutputFlags);
  add_dtype_flag(*verb, flags->request.dtype);
  const std::vector<CLI::Option*> of_training = add_merge_training_flags(*verb, flags->training);
  verb->add_flag("--json", flags->json, "Print what was merged as JSON")->group(kOutputFlags);
  verb->footer(
      "Examples:\n"
      "  crumb merge recovered/model.crumb -o merged\n"
      "  crumb merge SmolLM2 --adapter my_lora -o merged\n"
      "  crumb merge recovered/model.crumb --train text.txt --steps 100 -o retrained");
  verb->callback([flags, of_training] {
    const bool trains = !flags->training.train.empty();
    if (trains) {
      flags->training.how.keeps_memory = true;
      flags->request.training = flags->training;
    } else {
      refuse_without_train(of_training);
    }
    merge_verb(*flags);
  });
}

}  // namespace crumb::cli
