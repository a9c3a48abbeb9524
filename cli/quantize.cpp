// crumb quantize: a checkpoint becomes a packed file.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>

#include "cli/output.h"
#include "cli/recipe_flags.h"
#include "cli/verb.h"
#include "formats/crumb_file/writer.h"
#include "formats/io/mapped_file.h"
#include "formats/io/text.h"
#include "quant/checkpoint_run.h"

namespace crumb::cli {
namespace {

struct Options {
  std::string input, output;
  RecipeFlags recipe;
  int threads = 0;
  bool json = false;
};

constexpr size_t kWorstListed = 5;

Json report_json(const Options& options, const CheckpointReport& report, double seconds) {
  Json json;
  json["input"] = options.input;
  json["output"] = options.output;
  json["input_bytes"] = report.input_bytes;
  json["output_bytes"] = report.output_bytes;
  json["bits_per_weight"] = report.bits_per_weight;
  json["seconds"] = seconds;
  json["peak_rss_bytes"] = peak_rss_bytes();
  json["tensors"] = Json::array();
  for (const TensorReport& tensor : report.tensors) {
    const bool kept = tensor.spec.empty();
    Json row;
    row["name"] = tensor.name;
    row["shape"] = tensor.shape;
    row["dtype"] = dtype_name(tensor.dtype);
    row["spec"] = kept ? Json(nullptr) : Json(tensor.spec);
    row["bytes"] = tensor.bytes;
    row["sqnr_db"] = json_sqnr(tensor.sqnr_db);
    row["max_abs_error"] = json_number(tensor.max_abs_error);
    row["kept_because"] = kept ? Json(tensor.kept_because) : Json(nullptr);
    if (tensor.saturated_scales > 0) row["saturated_scales"] = tensor.saturated_scales;
    json["tensors"].push_back(std::move(row));
  }
  return json;
}

void print_report(const Options& options, const CheckpointReport& report, double seconds) {
  std::map<std::string, size_t> kept;
  std::vector<const TensorReport*> quantized;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.spec.empty()) {
      ++kept[tensor.kept_because];
    } else {
      quantized.push_back(&tensor);
    }
  }
  std::cout << options.output << ": " << megabytes(report.output_bytes) << " from "
            << megabytes(report.input_bytes);
  if (report.output_bytes > 0) {
    std::cout << " ("
              << fixed(static_cast<double>(report.input_bytes) / static_cast<double>(report.output_bytes), 2)
              << " times smaller)";
  }
  std::cout << ", " << fixed(report.bits_per_weight, 3) << " bits per weight, " << fixed(seconds, 2)
            << " s\n";
  std::cout << "quantized " << quantized.size() << " tensors, kept "
            << report.tensors.size() - quantized.size() << "\n";
  for (const auto& [reason, count] : kept) std::cout << "  kept " << count << ": " << reason << "\n";
  std::ranges::stable_sort(quantized, {}, [](const TensorReport* t) { return t->sqnr_db; });
  if (quantized.empty()) return;
  std::cout << "worst tensors:\n";
  std::vector<std::vector<std::string>> rows{{"  name", "shape", "spec", "SQNR dB", "max error"}};
  for (size_t i = 0; i < std::min(quantized.size(), kWorstListed); ++i) {
    const TensorReport& t = *quantized[i];
    rows.push_back(
        {"  " + t.name, shape_text(t.shape), t.spec, fixed(t.sqnr_db, 2), fixed(t.max_abs_error, 6)});
  }
  print_table(rows);
}

void note_conversions(const CheckpointReport& report) {
  size_t rounded = 0;
  uint64_t saturated = 0;
  for (const TensorReport& tensor : report.tensors) {
    rounded += !tensor.spec.empty() && tensor.dtype == DType::kF64;
    saturated += tensor.saturated_scales;
  }
  if (rounded > 0)
    std::fprintf(stderr, "note: %zu F64 tensors were rounded to float32 before quantization\n", rounded);
  if (saturated > 0) {
    std::fprintf(stderr, "note: %llu scales did not fit their format and were saturated\n",
                 static_cast<unsigned long long>(saturated));
  }
}

void refuse_packed(const std::string& input) {
  const Result<MappedFile> file = MappedFile::open(input);
  if (!file.ok() || !looks_like_crumb(file.value().bytes())) return;
  throw Error(quote_text(input) +
              " is already quantized: it is a packed file; expected a checkpoint in floating " +
              "point (crumb dequantize makes one)");
}

void quantize_verb(const Options& options) {
  const double start = now_seconds();
  const Recipe recipe = recipe_of(options.recipe);
  RunOptions run;
  run.zstd_level = recipe.zstd;
  run.threads = options.threads;
  refuse_packed(options.input);
  const Checkpoint checkpoint = Checkpoint::open(options.input).take();
  const std::vector<PlannedTensor> plan = plan_checkpoint(checkpoint, recipe);
  CheckpointReport report;
  {
    Progress progress("quantizing", "tensors", plan.size(), checkpoint.input_bytes());
    run.progress = [&](size_t tensors, uint64_t bytes) { progress.update(tensors, bytes); };
    report = quantize_checkpoint(checkpoint, plan, options.output, run);
  }
  note_conversions(report);
  const double seconds = now_seconds() - start;
  if (options.json) return print_json(report_json(options, report, seconds));
  print_report(options, report, seconds);
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("quantize", "Quantize a checkpoint into one packed file");
  verb->add_option("input", options->input, "A Hugging Face folder or a safetensors file")->required();
  verb->add_option("-o,--output", options->output, "The packed file to write")->required();
  add_recipe_flags(*verb, options->recipe);
  verb->add_option("--threads", options->threads, "Threads (those the machine has); never changes the result")
      ->check(CLI::Range(0, 1024));
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->footer(
      "Rules apply in the order recipe, include, exclude, embeddings, set; later ones win. A GLOB names "
      "tensors\n"
      "or the layers that own them; * crosses dots.\n"
      "crumb formats lists the number formats.\n\n" +
      spec_grammar() +
      "\n\nExample:\n"
      "  crumb quantize all-MiniLM-L6-v2 -o minilm.crumb --scheme W4A16 --set '*.pooler.*=int8:channel'");
  verb->callback([options] { quantize_verb(*options); });
}

}  // namespace crumb::cli
