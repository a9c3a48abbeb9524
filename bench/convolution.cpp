// crumb-bench convolution: layers of float convolutions as the runtime computes them, against the same with
// every window written out first, and against copying the input and the output.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/text.h"
#include "bench/bench.h"
#include "cli/output.h"
#include "runtime/ops/convolve.h"

namespace crumb::bench {
namespace {

using runtime::ConvolutionLayer;
using runtime::WindowsAre;

// As they are in EfficientNet-Lite0, a text detector and two networks of sounds.
constexpr const char* kLayers[] = {
    "96x112x112:96x3x3:group=96:stride=2",
    "144x56x56:144x3x3:group=144",
    "672x14x14:672x5x5:group=672",
    "1152x7x7:1152x5x5:group=1152",
    "3x224x224:32x3x3:stride=2",
    "16x112x112:96x1x1",
    "48x160x160:48x1x1",
    "192x14x14:672x1x1",
    "480x7x7:480x1x1",
    "64x112x112:64x3x3",
    "96x160x160:24x3x3",
    "32x450x60:32x3x3",
    "8x172x264:8x3x39",
    "16x1000:16x64",
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) c == by ? static_cast<void>(parts.emplace_back()) : parts.back().push_back(c);
  return parts;
}

std::vector<std::int64_t> sizes_of(const std::string& text, const std::string& layer) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : split(text, 'x')) {
    const bool is_number = !part.empty() && part.size() < 9 &&
                           std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || std::stoll(part) == 0)
      throw usage_error("convolution: expected a layer like 96x112x112:96x3x3:group=96:stride=2, found " +
                        quote_text(layer));
    sizes.push_back(std::stoll(part));
  }
  return sizes;
}

/// Of "INPUTSxSIZES:OUTPUTSxKERNEL[:group=G][:stride=S]", padded so that the output has the input's size over
/// the stride.
ConvolutionLayer layer_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  std::int64_t groups = 1, stride = 1;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    const auto at = parts[i].find('=');
    const std::string key = parts[i].substr(0, at);
    const std::int64_t value = sizes_of(at == std::string::npos ? "" : parts[i].substr(at + 1), text).front();
    if (key != "group" && key != "stride") throw usage_error("convolution: unknown " + quote_text(key));
    (key == "group" ? groups : stride) = value;
  }
  const std::vector<std::int64_t> input = sizes_of(parts[0], text),
                                  kernel = sizes_of(parts.size() > 1 ? parts[1] : "", text);
  if (input.size() < 2 || kernel.size() != input.size() || input[0] % groups != 0 || kernel[0] % groups != 0)
    throw usage_error("convolution: sizes and groups of " + quote_text(text) + " do not fit each other");
  ConvolutionLayer layer{.groups = static_cast<std::size_t>(groups),
                         .inputs = static_cast<std::size_t>(input[0] / groups),
                         .outputs = static_cast<std::size_t>(kernel[0] / groups)};
  for (std::size_t i = 1; i < input.size(); ++i) {
    layer.windows.input.push_back(input[i]);
    layer.windows.kernel.push_back(kernel[i]);
    layer.windows.strides.push_back(stride);
    layer.windows.dilations.push_back(1);
    layer.windows.begin.push_back((kernel[i] - 1) / 2);
    layer.windows.output.push_back((input[i] - 1) / stride + 1);
  }
  layer.terms = layer.inputs * layer.windows.taps();
  return layer;
}

void time_layer(const Options& options, const std::string& name, int threads, Table& table) {
  const ConvolutionLayer layer = layer_of(name);
  const std::size_t channels = layer.groups * layer.outputs;
  const std::vector<float> x = normal_values(layer.groups * layer.inputs * layer.windows.elements()),
                           w = normal_values(channels * layer.terms), bias = normal_values(channels);
  std::vector<float> y(channels * layer.windows.positions()), expected(y.size()), x_copy(x.size()),
      y_copy(y.size());
  const auto work = [&](WindowsAre how, std::vector<float>& to) {
    return [&, how] { convolve(layer, {1, x.data(), w.data(), bias.data(), to.data()}, threads, how); };
  };
  const std::vector<Timing> timings = time_in_turns(
      options.repeats, {work(WindowsAre::kFastest, y), work(WindowsAre::kLaidOut, expected), [&] {
                          copy_bytes(x, x_copy, threads);
                          copy_bytes(y, y_copy, threads);
                        }});
  if (std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)) != 0)
    throw Error("convolution: " + name + " has other bits when its windows are written out");
  const double products = static_cast<double>(y.size()) * static_cast<double>(layer.terms);
  table.add({name, std::to_string(threads), milliseconds(timings[0].best), milliseconds(timings[0].median),
             speed(products / 1e9, timings[0].best), times_as_fast(timings[1], timings[0], 2),
             times_as_fast(timings[2], timings[0], 2)});
}

}  // namespace

void convolution_bench(const Options& options) {
  Table table(options, {"layer", "threads", "best ms", "median ms", "10^9 products/s",
                        "times as fast as windows written", "times as fast as copying"});
  std::vector<std::string> layers = options.layers;
  if (layers.empty()) layers.assign(std::begin(kLayers), std::end(kLayers));
  for (const int threads : options.threads) {
    pin_to(threads);
    for (const std::string& layer : layers) time_layer(options, layer, threads, table);
  }
  table.print();
}

}  // namespace crumb::bench
