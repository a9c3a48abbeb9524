#include "cli/train/train_own.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/checksum.h"
#include "base/files/counted.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "graph/onnx/array_files.h"
#include "models/read_graph.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;

constexpr std::string_view kLosses[] = {"ce", "mse"};

/// Throws Error at the first value that is not finite.
void expect_finite(const Tensor& tensor, const std::string& from) {
  if (!graph::is_float(tensor.type())) return;
  const std::vector<float> values = tensor.to_floats();
  const auto found = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (found != values.end())
    throw Error(from + " holds " + number_text(*found) + " at index " +
                std::to_string(found - values.begin()) + " of " + graph::text_of(tensor.shape()) +
                ", expected finite numbers");
}

/// Throws Error where there are not as many inputs as targets, or none.
tasks::OwnSamples read_samples(const std::string& inputs_flag, const std::string& inputs,
                               const std::string& targets_flag, const std::string& targets) {
  tasks::OwnSamples samples{.inputs = graph::read_array(inputs),
                            .targets = graph::read_array(targets),
                            .inputs_from = inputs_flag + " " + quote_text(inputs),
                            .targets_from = targets_flag + " " + quote_text(targets)};
  const auto count = [](const Tensor& tensor) { return tensor.rank() == 0 ? 0 : tensor.shape()[0]; };
  if (count(samples.inputs) > 0 && count(samples.inputs) == count(samples.targets)) {
    expect_finite(samples.inputs, samples.inputs_from);
    expect_finite(samples.targets, samples.targets_from);
    return samples;
  }
  throw Error(samples.inputs_from + " is of shape " + graph::text_of(samples.inputs.shape()) + " and " +
              samples.targets_from + " of shape " + graph::text_of(samples.targets.shape()) +
              "; expected as many samples along axis 0, at least one");
}

void check_hold_out(const tasks::OwnSamples& samples) {
  if (samples.inputs.shape()[0] >= tasks::kHoldOutEvery) return;
  throw Error(samples.inputs_from + " holds " + std::to_string(samples.inputs.shape()[0]) +
              " samples: every fifth is held out for validation, so five are needed; or give --valid X.npy "
              "Y.npy");
}

void check_input(const tasks::OwnNetwork& own, const std::string& model) {
  if (own.graph.inputs.size() != 1) {
    std::string names;
    for (const std::string& input : own.graph.inputs)
      names += (names.empty() ? "" : ", ") + quote_text(input);
    throw Error(quote_text(model) + " takes " + std::to_string(own.graph.inputs.size()) + " inputs (" +
                names + "); crumb train takes networks with one");
  }
  const graph::Value* input = own.graph.find(own.graph.inputs[0]);
  for (const tasks::OwnSamples* samples : {&own.train, own.valid ? &*own.valid : nullptr}) {
    if (samples && input && input->type != graph::ElementType::kUnknown &&
        input->type != samples->inputs.type()) {
      throw Error(samples->inputs_from + ": input " + quote_text(own.graph.inputs[0]) + " of " +
                  quote_text(model) + " is " + std::string(graph::name_of(input->type)) + ", found " +
                  std::string(graph::name_of(samples->inputs.type())));
    }
  }
}

}  // namespace

void add_own_network_flags(CLI::App& verb, OwnNetworkFlags& flags) {
  flag_group(verb, kInputFlags);
  verb.add_option("--data", flags.data, "Inputs to train by (.npy), samples along axis 0")->type_name("FILE");
  verb.add_option("--labels", flags.labels, "Classes (with ce), or what it shall give (with mse): .npy")
      ->type_name("FILE");
  verb.add_option("--loss", flags.loss, "ce (cross entropy) or mse (mean squared error)")
      ->type_name("ce|mse");
  verb.add_option("--valid", flags.valid,
                  "Inputs and labels to score by, two files (every fifth sample of those above)")
      ->type_name("FILE")
      ->expected(2);
}

bool is_own_network(const std::string& task) {
  std::error_code error;
  const fs::path extension = fs::path(task).extension();
  return extension == ".onnx" || extension == ".crumb" || fs::is_regular_file(task, error);
}

std::shared_ptr<const tasks::OwnNetwork> read_own_network(const std::string& model,
                                                          const OwnNetworkFlags& flags) {
  for (const auto& [value, flag] :
       {std::pair(&flags.data, "--data X.npy"), std::pair(&flags.labels, "--labels Y.npy"),
        std::pair(&flags.loss, "--loss ce|mse")}) {
    if (value->empty()) throw usage_error("training " + quote_text(model) + " needs " + flag);
  }
  if (std::ranges::find(kLosses, flags.loss) == std::end(kLosses)) {
    throw usage_error("--loss " + quote_text(flags.loss) +
                      ": expected ce (classes, by cross entropy) or mse (values, by the mean squared error)");
  }
  auto own = std::make_shared<tasks::OwnNetwork>();
  own->name = fs::path(model).stem().string();
  own->loss = flags.loss;
  own->graph = models::read_graph(model);
  own->train = read_samples("--data", flags.data, "--labels", flags.labels);
  if (flags.valid.empty()) {
    check_hold_out(own->train);
  } else {
    own->valid = read_samples("--valid", flags.valid[0], "--valid", flags.valid[1]);
  }
  check_input(*own, model);
  own->fingerprint = crc32_of(MappedFile::open(model).take().bytes());
  for (const tasks::OwnSamples* samples : {&own->train, own->valid ? &*own->valid : nullptr}) {
    if (!samples) continue;
    for (const Tensor* tensor : {&samples->inputs, &samples->targets})
      own->fingerprint = crc32_of(tensor->bytes(), own->fingerprint);
  }
  return own;
}

}  // namespace crumb::cli
