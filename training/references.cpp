#include "training/references.h"

#include <algorithm>

#include "base/text/fixed.h"

namespace crumb::training {
namespace {

void take(std::vector<TrainReference>& references, const std::string& name, std::optional<int> epochs,
          const Json& score, double share) {
  if (!score.is_number()) return;
  const double value = score.get<double>();
  auto found = std::ranges::find(references, name, &TrainReference::name);
  if (found == references.end()) {
    references.push_back({.name = name, .epochs = epochs, .least = value, .greatest = value});
    found = references.end() - 1;
  }
  found->mean += value * share;
  found->least = std::min(found->least, value);
  found->greatest = std::max(found->greatest, value);
}

}  // namespace

std::vector<TrainReference> references_of(const std::vector<Json>& reports) {
  std::vector<TrainReference> references;
  const double share = 1 / static_cast<double>(reports.size());
  for (const Json& report : reports) {
    const Json untrained = report.value("references", Json::object());
    for (const auto& [name, score] : untrained.items()) take(references, name, std::nullopt, score, share);
    const int before = report.at("float_epochs"), with = report.at("epochs");
    take(references, "float", before, report.at("float"), share);
    take(references, "float, as many epochs", before + with, report.at("float_longer"), share);
  }
  return references;
}

std::string spread_text(double mean, double least, double greatest) {
  if (least == greatest) return fixed(least, 4);
  return fixed(mean, 4) + " (" + fixed(least, 4) + " to " + fixed(greatest, 4) + ")";
}

std::vector<std::vector<std::string>> rows_of(const std::vector<TrainReference>& references,
                                              const std::string& metric) {
  std::vector<std::vector<std::string>> rows{{"compared with", "epochs", metric}};
  for (const TrainReference& one : references) {
    rows.push_back({one.name, one.epochs ? std::to_string(*one.epochs) : "-",
                    spread_text(one.mean, one.least, one.greatest)});
  }
  return rows;
}

Json json_of(const std::vector<TrainReference>& references) {
  Json rows = Json::array();
  for (const TrainReference& one : references) {
    rows.push_back({{"name", one.name},
                    {"epochs", one.epochs ? Json(*one.epochs) : Json(nullptr)},
                    {"mean", one.mean},
                    {"least", one.least},
                    {"greatest", one.greatest}});
  }
  return rows;
}

bool is_less_better(const std::string& metric) {
  return metric == "mse" || metric == "relative error" || metric == "kl";
}

}  // namespace crumb::training
