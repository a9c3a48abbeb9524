#include "cli/train/train_report.h"

#include <algorithm>
#include <iostream>
#include <regex>

#include "training/references.h"

namespace crumb::cli {
namespace {

/// Returns "lstm.*.products" for "lstm.12.products": a cell's every step is one line.
std::string without_step(const std::string& name) {
  static const std::regex kStep("\\.[0-9]+\\.products$");
  return std::regex_replace(name, kStep, ".*.products");
}

void print_accumulators(const Json& layers) {
  std::vector<std::vector<std::string>> rows{{"layer", "input", "bits needed", "certified", "worst sums"}};
  const auto text = [](const Json& value) { return value.is_null() ? std::string("-") : value.dump(); };
  for (const Json& layer : layers) {
    const Json& input = layer.at("input");
    std::vector<std::string> row{without_step(layer.at("name")),
                                 input.is_null() ? "-" : input[0].dump() + " to " + input[1].dump(),
                                 text(layer.at("bits_needed")), text(layer.at("bits_certified")),
                                 text(layer.at("worst_min")) + " to " + text(layer.at("worst_max"))};
    if (row != rows.back()) rows.push_back(std::move(row));
  }
  print_table(std::move(rows));
}

void print_widths(const Json& widths) {
  const std::string unit = widths.at("unit");
  const int digits = unit == "bpw" ? 3 : 0;
  std::cout << fixed(widths.at("used"), digits) << " of " << fixed(widths.at("limit"), digits) << " " << unit
            << " used\n";
  std::vector<std::vector<std::string>> rows{{"weight", "weights", "bits", "learned"}};
  for (const Json& layer : widths.at("layers")) {
    const Json& learned = layer.at("learned");
    rows.push_back({layer.at("name"), layer.at("weights").dump(), layer.at("bits").dump(),
                    learned.is_null() ? std::string("given") : fixed(learned, 2)});
  }
  print_table(std::move(rows));
}

void print_pruning(const Json& pruning) {
  const auto percent = [](const Json& share) { return fixed(100 * share.get<double>(), 1) + " %"; };
  const auto row = [&](const std::string& name, const std::string& weights, const Json& of) {
    return std::vector<std::string>{name, weights, percent(of.at("sparsity")), fixed(of.at("bops"), 0),
                                    fixed(of.at("bops_dense"), 0)};
  };
  std::vector<std::vector<std::string>> rows{{"layer", "weights", "zeros", "BOPs", "BOPs, dense"}};
  double weights = 0;
  for (const Json& layer : pruning.at("layers")) {
    weights += layer.at("weights").get<double>();
    rows.push_back(row(layer.at("name"), fixed(layer.at("weights"), 0), layer));
  }
  rows.push_back(row("all", fixed(weights, 0), pruning));
  std::cout << percent(pruning.at("pruned")) << " of the weights pruned\n";
  print_table(std::move(rows));
}

/// Adds a column for each output after the first, and the outputs' names.
void add_outputs(const Json& outputs, std::vector<std::vector<std::string>>& rows) {
  for (const Json& output : outputs) {
    const bool is_first = &output == &outputs[0], is_held = output.at("held");
    const std::string title = output.at("name").get<std::string>() + ": " +
                              output.at("metric").get<std::string>() + (is_held ? " (held)" : "");
    if (is_first) {
      rows[0].back() = title;
      continue;
    }
    rows[0].push_back(title);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const char* key = i + 1 == rows.size() ? "quantized" : i == 1 ? "float" : "float_longer";
      const Json& score = output.at(key);
      rows[i].push_back(score.is_number() ? fixed(score, 4) : "-");
    }
  }
}

}  // namespace

void print_float_report(const Json& report, const std::filesystem::path& folder) {
  std::cout << report.at("task").get<std::string>() << " (" << report.at("network").get<std::string>()
            << "), seed " << report.at("seed").dump() << ", " << report.at("float_epochs").dump()
            << " epochs, " << fixed(report.at("seconds"), 1)
            << " s: " << report.at("metric").get<std::string>() << " " << fixed(report.at("float"), 4)
            << "\n";
  for (const Json& output : report.value("outputs", Json::array()))
    std::cout << output.at("name").get<std::string>() << ": " << output.at("metric").get<std::string>() << " "
              << fixed(output.at("float"), 4) << "\n";
  std::cout << "written: " << folder.string() << "/{float.onnx";
  for (const Json& array : report.at("arrays")) std::cout << ", " << array.get<std::string>();
  std::cout << ", log.jsonl, report.json}\n";
}

void print_train_report(const Json& report, const std::filesystem::path& folder,
                        const std::vector<std::string>& told) {
  const std::string metric = report.at("metric");
  std::cout << report.at("task").get<std::string>() << " (" << report.at("network").get<std::string>()
            << "), seed " << report.at("seed").dump() << ", " << fixed(report.at("seconds"), 1) << " s\n";
  if (report.contains("miniature_of")) {
    std::cout << "miniature of " << report.at("miniature_of").get<std::string>() << "\n";
  }
  std::vector<std::vector<std::string>> scores = training::rows_of(training::references_of({report}), metric);
  const int epochs = report.at("float_epochs").get<int>() + report.at("epochs").get<int>();
  scores[0][0] = "network";
  scores.push_back({"quantized", std::to_string(epochs), fixed(report.at("quantized"), 4)});
  if (report.contains("outputs")) add_outputs(report.at("outputs"), scores);
  print_table(std::move(scores));
  if (!report.at("accumulator").empty()) print_accumulators(report.at("accumulator"));
  if (report.contains("learned_bits")) print_widths(report.at("learned_bits"));
  if (report.contains("pruning")) print_pruning(report.at("pruning"));
  const Json notes = report.value("notes", Json::array());
  for (const Json& note : notes)
    if (std::ranges::find(told, note.get<std::string>()) == told.end())
      std::cout << "note: " << note.get<std::string>() << "\n";
  std::error_code error;
  const bool has_onnx = std::filesystem::exists(folder / "model.onnx", error);
  std::cout << "written: " << folder.string() << "/{model.crumb, " << (has_onnx ? "model.onnx, " : "")
            << "float.safetensors, log.jsonl, report.json}\n";
}

}  // namespace crumb::cli
