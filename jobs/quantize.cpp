#include "jobs/quantize.h"

#include <algorithm>
#include <system_error>

#include "base/files/inputs.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/seconds.h"
#include "jobs/network_quantization.h"
#include "jobs/quantize_parts.h"
#include "jobs/report/quantize_page.h"
#include "jobs/report/report_output.h"
#include "jobs/samples/calibration_data.h"
#include "models/checkpoint_graph.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_journal.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

double numbers_of(const TensorReport& tensor) {
  double numbers = 1;
  for (const std::uint64_t size : tensor.shape) numbers *= static_cast<double>(size);
  return numbers;
}

/// Whether the request has options for networks, in addition to the recipe.
bool has_network_options(const QuantizeRequest& request) {
  return !request.data.empty() || !request.batch_axes.empty() || !request.arguments.empty() ||
         request.tokens > 0 || request.pairs || !request.device.empty() || !request.shapes.empty() ||
         request.opset != 0 || request.form != exporting::Form::kQonnx ||
         request.profile != exporting::Profile::kQonnx || request.keeps_io_types || request.float32_io;
}

/// Refuses options that mean nothing for the kind of input that the request is carried out for.
void refuse_for_the_other(const QuantizeRequest& request, bool is_network) {
  if (is_network && !request.key.empty())
    throw usage_error("a key is for checkpoints, and " + quote_text(request.input) +
                      " is taken for a network");
  if (is_network && request.data.empty() &&
      (request.tokens > 0 || request.pairs || !request.device.empty() || !request.batch_axes.empty()))
    throw usage_error("tokens, pairs, axes of batches and a device are of samples, and no data are given");
  if (is_network) return;
  if (has_network_options(request))
    throw usage_error(
        "data, axes of batches, arguments, tokens, pairs, device, form, profile, opset, shapes and types of "
        "inputs are for networks, and " +
        quote_text(request.input) + " is taken for a checkpoint's tensors");
  if (std::filesystem::path(request.output).extension() == ".onnx")
    throw usage_error("the output " + quote_text(request.output) +
                      ": tensors are written as a packed file (.crumb)");
}

}  // namespace

std::vector<fs::path> inputs_of(const QuantizeRequest& request) {
  std::vector<fs::path> inputs{request.input};
  std::ranges::copy(request.read_files, std::back_inserter(inputs));
  add_sample_paths(request.data, inputs);
  return inputs;
}

void claim_output_of(const QuantizeRequest& request) {
  if (request.output.empty() || request.dry_run) return;
  refuse_overwriting_inputs(inputs_of(request), request.output);
  claim_output(request.output, request.resume ? LeftOver::kContinue : LeftOver::kDiscard,
               {RunJournal::path_of(request.output)});
}

bool is_network_file(const std::string& path) {
  std::error_code error;
  return (fs::path(path).extension() == ".onnx" && !fs::is_directory(path, error)) || is_torchscript(path);
}

bool is_of_network(const QuantizeRequest& request) {
  if (request.as != QuantizeRequest::As::kWhatIsAsked) return request.as == QuantizeRequest::As::kNetwork;
  return is_network_file(request.input) ||
         (models::is_checkpoint(request.input) &&
          (has_network_options(request) || !graph_field_of(request.recipe).empty()));
}

QuantizeReport quantize(const QuantizeRequest& request, Observer& observer) {
  const InputWatch watch;
  claim_output_of(request);
  claim_report(request.report, {request.output}, observer);
  refuse_packed(request.input);
  const bool is_network = is_of_network(request);
  refuse_for_the_other(request, is_network);
  const double start = now_seconds();
  QuantizeReport report =
      is_network ? quantize_network(request, observer) : quantize_tensors(request, observer);
  if (!request.dry_run) report.seconds = now_seconds() - start;
  if (!request.report.path.empty()) write_report(request.report, page_of(request, report));
  return report;
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

}  // namespace crumb::jobs
