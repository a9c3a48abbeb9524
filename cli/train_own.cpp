#include "cli/train_own.h"

#include <algorithm>
#include <filesystem>

#include "base/checksum.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "graph/onnx/array_files.h"
#include "models/read_graph.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;

constexpr std::int64_t kHoldOutEvery = 5;
constexpr std::string_view kLosses[] = {"ce", "mse"};

/// The samples whose numbers are wanted.
template <class Wanted>
Tensor samples_of(const Tensor& tensor, const Wanted& wanted) {
  std::vector<std::int64_t> shape = tensor.shape();
  const std::int64_t samples = shape[0];
  const std::size_t each = tensor.bytes().size() / static_cast<std::size_t>(samples);
  std::vector<std::byte> bytes;
  shape[0] = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    if (!wanted(i)) continue;
    const auto sample = tensor.bytes().subspan(static_cast<std::size_t>(i) * each, each);
    bytes.insert(bytes.end(), sample.begin(), sample.end());
    ++shape[0];
  }
  return Tensor(tensor.type(), std::move(shape), std::move(bytes));
}

void hold_out(tasks::OwnNetwork& own, const OwnNetworkFlags& flags) {
  const auto samples = [](const Tensor& tensor) { return tensor.rank() == 0 ? 0 : tensor.shape()[0]; };
  if (samples(own.inputs) != samples(own.targets)) {
    throw Error("--data " + quote_text(flags.data) + " holds " + std::to_string(samples(own.inputs)) +
                " samples along axis 0, --labels " + quote_text(flags.labels) + " " +
                std::to_string(samples(own.targets)));
  }
  if (samples(own.inputs) < kHoldOutEvery) {
    throw Error(
        "--data " + quote_text(flags.data) + " holds " + std::to_string(samples(own.inputs)) +
        " samples: every fifth is held out for validation, so five are needed; or give --valid X.npy Y.npy");
  }
  const auto is_held_out = [](std::int64_t i) { return i % kHoldOutEvery == kHoldOutEvery - 1; };
  const auto trains = [&](std::int64_t i) { return !is_held_out(i); };
  own.test_inputs = samples_of(own.inputs, is_held_out);
  own.test_targets = samples_of(own.targets, is_held_out);
  own.inputs = samples_of(own.inputs, trains);
  own.targets = samples_of(own.targets, trains);
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
  for (const auto& [tensor, flag] :
       {std::pair(&own.inputs, "--data"), std::pair(&own.test_inputs, "--valid")}) {
    if (input && input->type != graph::ElementType::kUnknown && input->type != tensor->type()) {
      throw Error(std::string(flag) + ": input " + quote_text(own.graph.inputs[0]) + " of " +
                  quote_text(model) + " is " + std::string(graph::name_of(input->type)) + ", found " +
                  std::string(graph::name_of(tensor->type())));
    }
  }
}

}  // namespace

void add_own_network_flags(CLI::App& verb, OwnNetworkFlags& flags) {
  verb.add_option("--data", flags.data,
                  "Of MODEL: inputs to train by, samples along axis 0; of lm: a text, texts or conversations "
                  "(.jsonl), or what the float model draws: synthetic, a text, or synthetic-chat, "
                  "conversations; of embed: lines")
      ->type_name("X.npy or TEXT");
  verb.add_option("--labels", flags.labels, "Of MODEL: classes (ce) or what it shall give (mse)")
      ->type_name("Y.npy");
  verb.add_option(
      "--loss", flags.loss,
      "Of MODEL: ce (cross entropy) or mse (mean squared error); of lm: kl (from what the float network "
      "predicts), hidden (from what its last layer gives), ce (the text's tokens) or mix (half of the "
      "last two) (kl); of embed: hidden, cosine (of vectors) or mix (half of both) (mix)");
  verb.add_option(
          "--valid", flags.valid,
          "Of MODEL: samples to score by (every fifth of those above); of lm: a text; of embed: lines")
      ->type_name("X.npy Y.npy or TEXT")
      ->expected(1, 2);
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
  own->inputs = graph::read_array(flags.data);
  own->targets = graph::read_array(flags.labels);
  if (flags.valid.empty()) {
    hold_out(*own, flags);
  } else {
    own->test_inputs = graph::read_array(flags.valid[0]);
    own->test_targets = graph::read_array(flags.valid[1]);
  }
  check_input(*own, model);
  own->fingerprint = crc32_of(MappedFile::open(model).take().bytes());
  for (const Tensor* tensor : {&own->inputs, &own->targets, &own->test_inputs, &own->test_targets}) {
    own->fingerprint = crc32_of(tensor->bytes(), own->fingerprint);
  }
  return own;
}

void refuse_own_network_flags(const std::string& task, const OwnNetworkFlags& flags) {
  const char* given = !flags.data.empty()     ? "--data"
                      : !flags.labels.empty() ? "--labels"
                      : !flags.loss.empty()   ? "--loss"
                      : !flags.valid.empty()  ? "--valid"
                                              : nullptr;
  if (!given) return;
  throw usage_error(std::string(given) +
                    " is for a network of your own (crumb train MODEL.onnx ...); the task " + task +
                    " has its samples");
}

}  // namespace crumb::cli
