#include "tasks/task.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cmath>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "tasks/digits.h"
#include "tasks/jets.h"
#include "tasks/lines.h"
#include "tasks/networks.h"
#include "tasks/photographs.h"
#include "tasks/train/trainer.h"

namespace crumb::tasks {
namespace {

namespace fs = std::filesystem;
namespace functional = torch::nn::functional;

constexpr double kPixelMean = 4.884, kPixelSpread = 6.017;  // of the training digits
constexpr int kMostPixel = 16;
constexpr std::int64_t kBlank = 10;

fs::path data_file(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  throw Error("the data set " + quote_text(name) + " is not in " + quote_text(folder.string()) +
              ": scripts/setup puts it into the cache folder; --data-dir DIR or CRUMB_DATA name another");
}

at::Tensor tensor_of(const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat).clone();
}

at::Tensor tensor_of(const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), shape, at::kLong).clone();
}

SampleTensors classes_of(const Samples& samples, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), samples.size());
  return {{tensor_of(samples.inputs, shape)}, {tensor_of(samples.labels, {samples.size()})}};
}

template <class Net>
void use_network(Task& task, Net net) {
  task.module = net.ptr();
  task.forward = [net](const std::vector<at::Tensor>& inputs) mutable {
    return std::vector<at::Tensor>{net->forward(inputs.at(0))};
  };
}

/// Sets the loss and score for classes: cross entropy, and the share of samples whose class has the highest
/// score.
void use_classes(Task& task) {
  TaskOutput& output = task.outputs.emplace_back();
  output.metric = "accuracy";
  output.loss = [](const at::Tensor& scores, const at::Tensor& labels) {
    return at::cross_entropy_loss(scores, labels);
  };
  output.score = [](const at::Tensor& scores, const at::Tensor& labels) {
    return static_cast<double>(scores.argmax(1).eq(labels).sum().item<std::int64_t>()) /
           static_cast<double>(labels.numel());
  };
}

Task make_digits(std::string_view network, const fs::path& data, bool fixed_point_input) {
  const Split split = read_digits(data_file(data, kDigitsFile)).take();
  const bool cnn = network == "cnn";
  const std::vector<std::int64_t> shape = cnn ? std::vector<std::int64_t>{1, 8, 8} : split.train.shape;
  Task task;
  task.stands_for = "arXiv:2401.10432, tables 1 and 3 (miniature: other data, a smaller network)";
  task.train = classes_of(split.train, shape);
  task.test = classes_of(split.test, shape);
  constexpr double kMiddle = kMostPixel / 2.0;
  const Normalise normalise = fixed_point_input ? Normalise(kMiddle, 1 / kMiddle)  // -1 to 1 in steps of 1/8
                                                : Normalise(kPixelMean, 1 / kPixelSpread);
  if (fixed_point_input) task.whole_inputs = {0, kMostPixel};
  use_network(task, cnn ? digits_cnn(normalise) : mlp(normalise, {64, 128, 64, 64, 10}));
  use_classes(task);
  task.float_pace = {.epochs = cnn ? 15 : 40, .batch = 32, .rate = 4e-3, .decay = 1e-1};
  task.quantized_pace = {.epochs = cnn ? 20 : 60, .batch = 32, .rate = 1e-3, .decay = 1e-4};
  return task;
}

Task make_jets_task(std::string_view, const fs::path&) {
  const Split split = make_jets();
  Task task;
  task.stands_for = "arXiv:2102.11289, figures 4 to 6 (miniature: synthetic jets)";
  task.train = classes_of(split.train, split.train.shape);
  task.test = classes_of(split.test, split.test.shape);
  use_network(task, mlp(Normalise(0, 1), {16, 64, 32, 32, 5}));
  use_classes(task);
  task.float_pace = {.epochs = 15, .batch = 256, .rate = 4e-3, .decay = 1e-2};
  task.quantized_pace = {.epochs = 15, .batch = 256, .rate = 2e-3, .decay = 1e-4};
  return task;
}

SampleTensors pictures_of(const Tiles& tiles) {
  return {{tensor_of(tiles.small, {tiles.count, 1, kSmallTile, kSmallTile})},
          {tensor_of(tiles.large, {tiles.count, 1, kLargeTile, kLargeTile})}};
}

/// Returns the mean over tiles of the logarithm of the squared error, up to a factor the negative PSNR of
/// each: a tile full of edges, which no network draws well, counts no more than a smooth one.
at::Tensor log_error(const at::Tensor& made, const at::Tensor& wanted) {
  constexpr double kLeast = 1e-5;  // on brightness -1..1: 56 dB, so that a flat tile has a gradient, too
  return (((made - wanted) / 127.5).square().mean({1, 2, 3}) + kLeast).log().mean();
}

double psnr(const at::Tensor& made, const at::Tensor& wanted) {
  const double error = (made.clamp(0, 255) - wanted).to(at::kDouble).square().mean().item<double>();
  return 10 * std::log10(255.0 * 255.0 / error);
}

/// Returns pictures enlarged by fixed rules, with pixel centres aligned (half_pixel).
std::vector<Reference> interpolations(const SampleTensors& pictures) {
  const at::Tensor &small = pictures.inputs[0], &large = pictures.targets[0];
  const at::IntArrayRef size = large.sizes().slice(2);
  return {{"nearest", psnr(at::upsample_nearest2d(small, size), large)},
          {"bilinear", psnr(at::upsample_bilinear2d(small, size, false), large)},
          {"bicubic", psnr(at::upsample_bicubic2d(small, size, false), large)}};
}

Task make_sr(std::string_view, const fs::path& data) {
  Task task;
  task.stands_for = "arXiv:2401.10432, table 2, ESPCN x3 (miniature: two photographs)";
  task.train = pictures_of(read_tiles(data_file(data, "china.npy"), true).take());
  task.test = pictures_of(read_tiles(data_file(data, "flower.npy"), false).take());
  use_network(task, Espcn());
  task.outputs = {{.name = "", .metric = "psnr", .loss = log_error, .score = psnr}};
  task.references = interpolations(task.test);
  task.float_pace = {.epochs = 12, .batch = 8, .rate = 3e-3, .decay = 1e-5};
  task.quantized_pace = {.epochs = 6, .batch = 8, .rate = 1e-3, .decay = 1e-5};
  return task;
}

SampleTensors lines_of(const Samples& digits, std::int64_t count, std::uint64_t seed) {
  const Samples lines = make_lines(digits, static_cast<std::size_t>(count), seed);
  return {{tensor_of(lines.inputs, {count, kLineColumns, kLineRows})},
          {tensor_of(lines.labels, {count, kMostDigits})}};
}

/// Connectionist temporal classification (CTC), over targets that end at -1.
at::Tensor ctc(const at::Tensor& scores, const at::Tensor& targets) {
  const at::Tensor lengths = targets.ge(0).sum(1);
  const at::Tensor times = at::full({scores.size(0)}, scores.size(1), at::kLong);
  return at::ctc_loss(scores.log_softmax(2).transpose(0, 1), targets.clamp_min(0), times, lengths, kBlank);
}

/// Returns one line's text: the best class of each column, repetitions and blanks left out.
std::vector<std::int64_t> read_line(const at::Tensor& best) {
  std::vector<std::int64_t> text;
  std::int64_t before = kBlank;
  for (std::int64_t t = 0; t < best.numel(); ++t) {
    const std::int64_t now = best.data_ptr<std::int64_t>()[t];
    if (now != before && now != kBlank) text.push_back(now);
    before = now;
  }
  return text;
}

/// Returns the insertions, deletions and replacements that turn one sequence into the other (Levenshtein).
std::int64_t edits(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::int64_t diagonal = row[0];
    row[0] = static_cast<std::int64_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

double character_accuracy(const at::Tensor& scores, const at::Tensor& targets) {
  const at::Tensor best = scores.argmax(2).contiguous();
  std::int64_t wrong = 0, total = 0;
  for (std::int64_t i = 0; i < targets.size(0); ++i) {
    std::vector<std::int64_t> wanted;
    for (std::int64_t j = 0; j < targets.size(1); ++j) {
      const auto label = targets[i][j].item<std::int64_t>();
      if (label >= 0) wanted.push_back(label);
    }
    wrong += edits(read_line(best[i]), wanted);
    total += static_cast<std::int64_t>(wanted.size());
  }
  return 1 - static_cast<double>(wrong) / static_cast<double>(total);
}

Task make_ocr(std::string_view, const fs::path& data) {
  const Split digits = read_digits(data_file(data, kDigitsFile)).take();
  Task task;
  task.stands_for = "arXiv:1807.04093, table 4 (miniature: lines of digits)";
  task.train = lines_of(digits.train, 1600, 1);
  task.test = lines_of(digits.test, 200, 2);
  use_network(task, LineReader(Normalise(kPixelMean, 1 / kPixelSpread)));
  task.outputs = {{.name = "", .metric = "character accuracy", .loss = ctc, .score = character_accuracy}};
  task.float_pace = {.epochs = 25, .batch = 32, .rate = 1e-2, .decay = 1e-4};
  task.quantized_pace = {.epochs = 10, .batch = 32, .rate = 2e-3, .decay = 1e-4};
  return task;
}

[[noreturn]] void refuse_task(std::string_view task) {
  throw usage_error("there is no task " + quote_text(task) +
                    "; expected digits, jets, ocr or sr; did you mean '" + nearest_name(task, kTasks) + "'?");
}

}  // namespace

std::vector<at::Tensor> network_inputs(const Task& task, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> moved = inputs;
  for (std::size_t i = 0; i < task.input_axes.size(); ++i)
    if (task.input_axes[i] != 0) moved[i] = moved[i].movedim(0, task.input_axes[i]).contiguous();
  return moved;
}

std::vector<at::Tensor> run_network(const Task& task, const NetworkFunction& network,
                                    const std::vector<at::Tensor>& inputs) {
  const std::vector<at::Tensor> all = network(network_inputs(task, inputs));
  std::vector<at::Tensor> made;
  for (const TaskOutput& output : task.outputs) {
    const at::Tensor& one = all.at(output.index);
    made.push_back(output.axis == 0 ? one : one.movedim(output.axis, 0));
  }
  return made;
}

at::Tensor loss_of(const Task& task, const std::vector<at::Tensor>& made,
                   const std::vector<at::Tensor>& targets) {
  at::Tensor sum;
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    const at::Tensor one = task.outputs[i].loss(made[i], targets[i]);
    const at::Tensor weighted = task.outputs[i].weight == 1 ? one : one * task.outputs[i].weight;
    sum = sum.defined() ? sum + weighted : weighted;
  }
  return sum;
}

std::vector<double> scores_of(const Task& task, const std::vector<at::Tensor>& made,
                              const std::vector<at::Tensor>& targets) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < task.outputs.size(); ++i)
    scores.push_back(task.outputs[i].score(made[i], targets[i]));
  return scores;
}

std::vector<std::string_view> networks_of(std::string_view task) {
  if (task == "digits") return {"mlp", "cnn"};
  if (task == "jets") return {"mlp"};
  if (task == "sr") return {"espcn"};
  if (task == "ocr") return {"bilstm"};
  refuse_task(task);
}

Task make_task(std::string_view name, std::string_view network, const fs::path& data, std::uint64_t seed,
               bool fixed_point_input) {
  const std::vector<std::string_view> known = networks_of(name);
  const std::string_view chosen = network.empty() ? known[0] : network;
  if (std::ranges::find(known, chosen) == known.end()) {
    throw usage_error("the task " + std::string(name) + " has no network " + quote_text(chosen) +
                      ", did you mean '" + nearest_name(chosen, known) + "'?");
  }
  Task task = name == "digits" ? make_digits(chosen, data, fixed_point_input)
              : name == "jets" ? make_jets_task(chosen, data)
              : name == "sr"   ? make_sr(chosen, data)
                               : make_ocr(chosen, data);
  task.network = chosen;
  initialise(*task.module, seed);
  return task;
}

}  // namespace crumb::tasks
