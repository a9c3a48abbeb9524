// crumb cost: the cost of executing a graph.
#include "analysis/cost/cost.h"

#include <iostream>

#include "cli/flags/flag_group.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/shape_notes.h"

namespace crumb::cli {
namespace {

using analysis::Amounts;
using analysis::GraphCost;
using analysis::NodeCost;

struct CostFlags {
  std::string model;
  std::vector<std::string> shapes;
  TorchScriptFlags archive;
  bool sparse = false, json = false;
};

Json amounts_json(const Amounts& amounts) {
  return {{"macs", json_amount(amounts.macs)},
          {"bops_qonnx", json_amount(amounts.bops_qonnx)},
          {"bops_qap", json_amount(amounts.bops_qap)},
          {"weight_bits", json_amount(amounts.weight_bits)},
          {"activation_bits", json_amount(amounts.activation_bits)}};
}

Json accumulator_json(const NodeCost& node) {
  if (!node.accumulator) return nullptr;
  const auto& bounds = *node.accumulator;
  Json json{{"by_data_type", bounds.by_types},
            {"by_weights", nullptr},
            {"exact", nullptr},
            {"exact_bits", nullptr},
            {"assumed", bounds.assumed}};
  if (bounds.by_weights) json["by_weights"] = *bounds.by_weights;
  if (bounds.exact) {
    json["exact"] = bounds.exact->name();
    json["exact_bits"] = bounds.exact->bits();
  }
  return json;
}

Json node_json(const NodeCost& node, bool sparse) {
  Json json{{"name", node.name}, {"op", node.op}};
  json.update(amounts_json(sparse ? node.sparse : node.dense));
  json["input_type"] = node.input.name();
  json["weight_type"] = node.weight.name();
  json["output_type"] = node.output.name();
  json["weights"] = json_amount(node.weights);
  json["density"] = node.density;
  json["length"] = json_amount(node.length);
  json["accumulator"] = accumulator_json(node);
  json["dense"] = amounts_json(node.dense);
  json["sparse"] = amounts_json(node.sparse);
  return json;
}

void print_cost_json(const GraphCost& cost, bool sparse, const Notes& notes) {
  Json json{{"total", amounts_json(sparse ? cost.sparse : cost.dense)},
            {"dense", amounts_json(cost.dense)},
            {"sparse", amounts_json(cost.sparse)},
            {"nodes", Json::array()},
            {"not_counted", cost.not_counted},
            {"notes", notes.all()}};
  for (const NodeCost& node : cost.nodes) json["nodes"].push_back(node_json(node, sparse));
  print_json(json);
}

std::vector<std::string> cells(const Amounts& amounts) {
  return {fixed(amounts.macs, 0), fixed(amounts.bops_qonnx, 0), fixed(amounts.bops_qap, 0),
          fixed(amounts.weight_bits, 0), fixed(amounts.activation_bits, 0)};
}

void print_cost(const GraphCost& cost, bool sparse) {
  std::vector<std::vector<std::string>> rows{{"node", "op", "input", "weight", "MACs", "BOPs (qonnx)",
                                              "BOPs (QAP)", "weight bits", "result bits", "zeros"}};
  std::vector<std::vector<std::string>> widths{{"node", "length", "by data type", "by weights", "exact"}};
  for (const NodeCost& node : cost.nodes) {
    std::vector<std::string> row{node.name, node.op, node.input.name(), node.weight.name()};
    const auto amounts = cells(sparse ? node.sparse : node.dense);
    row.insert(row.end(), amounts.begin(), amounts.end());
    row.push_back(fixed(100 * (1 - node.density), 1) + " %");
    rows.push_back(std::move(row));
    if (!node.accumulator) continue;
    const auto& bounds = *node.accumulator;
    widths.push_back({node.name, fixed(node.length, 0), std::to_string(bounds.by_types),
                      bounds.by_weights ? std::to_string(*bounds.by_weights) : "-",
                      bounds.exact ? bounds.exact->name() : "-"});
  }
  for (const auto& [name, amounts] :
       {std::pair{"total, dense", cost.dense}, {"total, sparse", cost.sparse}}) {
    std::vector<std::string> row{name, "", "", ""};
    const auto total = cells(amounts);
    row.insert(row.end(), total.begin(), total.end());
    row.push_back("");
    rows.push_back(std::move(row));
  }
  print_table(rows);
  if (widths.size() > 1) {
    std::cout << "\naccumulators, bits:\n";
    print_table(widths);
  }
  if (cost.not_counted.empty()) return;
  std::cout << "\nnot counted:";
  for (const std::string& op : cost.not_counted) std::cout << " " << op;
  std::cout << "\n";
}

void cost_verb(const CostFlags& options) {
  const auto shapes = read_shapes(options.shapes);
  const graph::Graph read = graph::lower_or_fold_quantized(
      jobs::read_graph_or_archive(options.model, example_of(options.archive, options.shapes), terminal()));
  Notes notes;
  jobs::note_shapes(read, notes);
  for (const std::string& note : jobs::notes_of_symbols(read, shapes)) notes.say(note);
  const GraphCost cost = analysis::cost_of(graph::bind_shapes(read, shapes));
  options.json ? print_cost_json(cost, options.sparse, notes) : print_cost(cost, options.sparse);
}

}  // namespace

void add_cost(CLI::App& app) {
  auto options = std::make_shared<CostFlags>();
  CLI::App* verb =
      app.add_subcommand("cost", "Count a graph's multiplications, bit operations, bits, accumulators");
  verb->add_option("model", options->model,
                   "The graph (.onnx, a .crumb that holds one, or a TorchScript archive)")
      ->type_name("FILE")
      ->required();
  verb->add_option("--shape", options->shapes, kShapeHelp)->type_name("NAME=SIZES")->group(kInputFlags);
  add_torchscript_flags(*verb, options->archive, kInputFlags);
  verb->add_flag("--sparse", options->sparse, "Leave multiplications by zero weights out of nodes and total")
      ->group(kOutputFlags);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "BOPs (qonnx): MACs times bits of input times bits of weight, with the types that qonnx infers.\n"
      "BOPs (QAP): MACs times ((1 - zeros) a w + a + w + log2(length)), arXiv:2102.11289.\n"
      "Bits of weights and results use the types that they have; a result without one counts 32.\n"
      "Accumulators: the width that types alone, the weights' l1 norms, and signs and ranges ask for.\n"
      "--json holds both totals, as \"dense\" and \"sparse\".\n\nExample:\n  crumb cost TFC_2W2A.onnx "
      "--sparse");
  verb->callback([options] { cost_verb(*options); });
}

}  // namespace crumb::cli
