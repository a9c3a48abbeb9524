#include "cli/quantize_report.h"

namespace crumb::cli {
Json totals_json(const jobs::QuantizeReport& report) {
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

Json tensor_json(const TensorReport& tensor, bool is_measured) {
  const bool kept = tensor.spec.empty();
  Json row{{"name", tensor.name}, {"shape", tensor.shape}, {"dtype", dtype_name(tensor.dtype)}};
  row["spec"] = kept ? Json(nullptr) : Json(tensor.spec);
  row["bytes"] = tensor.bytes;
  row["sqnr_db"] = is_measured ? json_sqnr(tensor.sqnr_db) : Json(nullptr);
  row["max_abs_error"] = is_measured ? json_number(tensor.max_abs_error) : Json(nullptr);
  row["kept_because"] = kept ? Json(tensor.kept_because) : Json(nullptr);
  if (tensor.saturated_scales > 0) row["saturated_scales"] = tensor.saturated_scales;
  return row;
}

std::string size_text(std::uint64_t before, std::uint64_t after) {
  std::string text = short_bytes(after) + " from " + short_bytes(before);
  if (after == 0) return text;
  const auto was = static_cast<double>(before), is = static_cast<double>(after);
  return text + " (" +
         (is > was ? fixed(is / was, 2) + " times larger" : fixed(was / is, 2) + " times smaller") + ")";
}

}  // namespace crumb::cli
