#include "jobs/quantize_json.h"

#include <optional>

#include "base/json/numbers.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;
using graph::PlannedConstant;
using graph::PlannedEdge;

Json totals_json(const QuantizeReport& report) {
  const bool is_known = !report.foreseen, is_foreseen_of_tensors = report.foreseen && !report.is_network;
  Json json{{"schema", kQuantizeSchema}, {"input", report.input}};
  json["output"] = report.output.empty() ? Json(nullptr) : Json(report.output);
  json["input_bytes"] = report.input_bytes;
  json["output_bytes"] = is_known || is_foreseen_of_tensors ? Json(report.output_bytes) : Json(nullptr);
  json["bits_per_weight"] = report.bits_per_weight;
  json["seconds"] = is_known ? Json(report.seconds) : Json(nullptr);
  json["peak_rss_bytes"] = is_known || is_foreseen_of_tensors ? Json(report.peak_bytes) : Json(nullptr);
  json["dry_run"] = report.foreseen;
  json["upper_bound"] = report.upper_bound;
  return json;
}

Json tensor_json(const TensorReport& tensor) {
  const bool kept = tensor.spec.empty();
  Json row{{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", dtype_name(tensor.dtype)}};
  row["spec"] = kept ? Json(nullptr) : Json(tensor.spec);
  row["bytes"] = tensor.bytes;
  row["sqnr_db"] = tensor.is_measured ? json_sqnr(tensor.sqnr_db) : Json(nullptr);
  row["max_abs_error"] = tensor.is_measured ? json_number(tensor.max_abs_error) : Json(nullptr);
  row["kept_because"] = kept ? Json(tensor.kept_because) : Json(nullptr);
  if (tensor.saturated_scales > 0) row["saturated_scales"] = tensor.saturated_scales;
  return row;
}

/// Returns a row of `tensors` with the keys that only constants of a network have.
Json constant_json(const PlannedConstant& constant, const TensorReport& tensor) {
  Json json = tensor_json(tensor);
  json["node"] = constant.node;
  json["output_axis"] = constant.spec ? Json(constant.axes.output) : Json(nullptr);
  if (constant.spec && constant.axes.stack > 0) json["stack_axes"] = constant.axes.stack;
  json["bits"] = constant.spec ? Json(bits_a_number(tensor)) : Json(nullptr);
  return json;
}

Json edge_json(const QuantizeReport& report, std::size_t i) {
  const PlannedEdge& edge = report.plan.edges[i];
  Json json{{"value", edge.value},
            {"spec", edge.spec.to_string()},
            {"signed_twin", edge.is_signed_twin},
            {"wanted_by", edge.wanted_by},
            {"scale_group", edge.scale_group}};
  const bool known = edge.scale > 0;
  json["scale"] = known ? json_number(static_cast<double>(edge.scale)) : Json(nullptr);
  json["zero_point"] = known ? json_number(static_cast<double>(edge.zero_point)) : Json(nullptr);
  const bool seen = known && edge.has_own_scale();
  json["min"] = seen ? json_number(static_cast<double>(edge.least)) : Json(nullptr);
  json["max"] = seen ? json_number(static_cast<double>(edge.greatest)) : Json(nullptr);
  if (edge.truncation) json["truncated_bits"] = edge.truncation->shift();
  json["alone_sqnr_db"] = edge.cost ? json_sqnr(sqnr_of(*edge.cost)) : Json(nullptr);
  json["saturated"] = report.comparison ? Json(report.comparison->edges[i].share_saturated()) : Json(nullptr);
  return json;
}

Json json_loss(std::optional<double> loss) { return loss ? json_number(*loss) : Json(nullptr); }

}  // namespace

Json json_of(const std::vector<SkippedEntry>& skipped) {
  Json list = Json::array();
  for (const SkippedEntry& entry : skipped) list.push_back({{"name", entry.name}, {"what", entry.what}});
  return list;
}

Json json_of(const QuantizeReport& report) {
  Json json = totals_json(report);
  json["tensors"] = Json::array();
  for (std::size_t i = 0; i < report.tensors.size(); ++i)
    json["tensors"].push_back(report.is_network ? constant_json(report.plan.constants[i], report.tensors[i])
                                                : tensor_json(report.tensors[i]));
  if (report.is_network) json["weights"] = json["tensors"];  // the name in 0.2
  json["stages"] = Json::array();
  for (const ptq::StageReport& stage : report.stages) {
    Json layers = Json::array();
    for (const ptq::LayerReport& layer : stage.layers) {
      layers.push_back({{"layer", layer.layer},
                        {"before", json_number(layer.before)},
                        {"after", json_number(layer.after)}});
      if (layer.tried) layers.back()["tried"] = json_number(*layer.tried);
    }
    json["stages"].push_back({{"stage", stage.stage},
                              {"measure", stage.measure},
                              {"layers", std::move(layers)},
                              {"loss_before", json_loss(stage.loss_before)},
                              {"loss_after", json_loss(stage.loss_after)},
                              {"rolled_back", stage.rolled_back},
                              {"notes", stage.notes}});
  }
  json["activations"] = Json::array();
  for (std::size_t i = 0; i < report.plan.edges.size(); ++i)
    json["activations"].push_back(edge_json(report, i));
  json["biases"] = Json::array();
  for (std::size_t i = 0; i < report.plan.biases.size(); ++i) {
    const graph::PlannedBias& bias = report.plan.biases[i];
    json["biases"].push_back(
        {{"name", bias.value},
         {"bits", bias.bits},
         {"weight", bias.weight},
         {"input", report.plan.edges[bias.edge].value},
         {"saturated", report.biases.empty() ? Json(nullptr) : Json(report.biases[i].saturated)}});
  }
  json["outputs"] = Json::array();
  if (report.comparison) {
    for (const graph::OutputAgreement& output : report.comparison->outputs) {
      json["outputs"].push_back(
          {{"name", output.output},
           {"sqnr_db", output.is_finite() ? json_sqnr(output.distortion.sqnr_db) : Json(nullptr)},
           {"max_abs_error", json_number(output.distortion.max_abs_error)},
           {"top1", output.top1 && output.is_finite() ? Json(*output.top1) : Json(nullptr)},
           {"not_finite", output.not_finite}});
    }
  }
  json["skipped"] = json_of(report.skipped);
  if (report.dequantized) json["dequantized"] = *report.dequantized;
  json["notes"] = report.notes;
  return json;
}

}  // namespace crumb::jobs
