#include "cli/quantize_report.h"

namespace crumb::cli {
namespace {

double numbers_of(const TensorReport& tensor) {
  double numbers = 1;
  for (const std::uint64_t size : tensor.shape) numbers *= static_cast<double>(size);
  return numbers;
}

template <class T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json totals_json(const QuantizeTotals& totals) {
  Json json{{"schema", kQuantizeSchema}, {"input", totals.input}};
  json["output"] = totals.output.empty() ? Json(nullptr) : Json(totals.output);
  json["input_bytes"] = totals.input_bytes;
  json["output_bytes"] = json_or_null(totals.output_bytes);
  json["bits_per_weight"] = totals.bits_per_weight;
  json["seconds"] = json_or_null(totals.seconds);
  json["peak_rss_bytes"] = json_or_null(totals.peak_bytes);
  json["dry_run"] = totals.foreseen;
  json["upper_bound"] = totals.upper_bound;
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

double bits_a_number(const TensorReport& tensor) {
  const double numbers = numbers_of(tensor);
  return numbers > 0 ? 8 * static_cast<double>(tensor.bytes) / numbers : 0;
}

double bits_a_weight(const std::vector<TensorReport>& tensors) {
  double bytes = 0, numbers = 0;
  for (const TensorReport& tensor : tensors) {
    if (tensor.spec.empty()) continue;
    bytes += static_cast<double>(tensor.bytes);
    numbers += numbers_of(tensor);
  }
  return numbers > 0 ? 8 * bytes / numbers : 0;
}

}  // namespace crumb::cli
