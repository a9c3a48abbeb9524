#include "cli/export/export_adapter.h"

#include <filesystem>
#include <iostream>
#include <utility>

#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/json/json_file.h"
#include "cli/output.h"
#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/peft.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/half.h"
#include "graph/adapters.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

/// Returns the narrowest type that holds every number.
DType type_of(const Adapter& adapter) {
  const auto all = [&](const auto& is_exact) {
    return std::ranges::all_of(adapter.updates, [&](const LowRankUpdate& update) {
      return std::ranges::all_of(update.down, is_exact) && std::ranges::all_of(update.up, is_exact);
    });
  };
  if (all([](float x) { return bf16_to_float(float_to_bf16(x)) == x; })) return DType::kBF16;
  if (all([](float x) { return f16_to_float(float_to_f16(x)) == x; })) return DType::kF16;
  return DType::kF32;
}

std::string chosen_name(const std::vector<std::string>& names, const std::string& input,
                        const std::string& requested) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  if (names.empty()) throw usage_error(quote_text(input) + " has no adapter");
  if (requested.empty() && names.size() > 1)
    throw usage_error(quote_text(input) + " has several adapters (" + all + "): choose one with --name");
  if (requested.empty()) return names[0];
  if (std::ranges::find(names, requested) == names.end())
    throw usage_error("--name " + quote_text(requested) + ": " + quote_text(input) + " has " + all);
  return requested;
}

}  // namespace

void write_export_adapter(const std::string& input, const std::string& output, const std::string& name,
                          bool json) {
  const bool is_gguf = std::filesystem::path(output).extension() == ".gguf";
  refuse_overwriting_inputs({input}, output);
  if (is_gguf) claim_output(output);
  const graph::Graph graph = models::open_graph(input);
  const std::string chosen = chosen_name(graph::adapter_names(graph), input, name);
  Adapter adapter = graph::adapter_of(graph, chosen);
  if (is_gguf && !adapter.updates.empty()) adapter = with_common_alpha(std::move(adapter));
  const DType dtype = type_of(adapter);
  if (is_gguf) {
    const std::optional<std::string> config = models::open_weights(input)->file("config.json");
    if (!config)
      throw usage_error(quote_text(input) +
                        " holds no config.json, which says what llama.cpp calls its layers");
    const JsonFile file("config.json", *config);
    write_gguf_adapter(adapter, output,
                       {.model_type = Json::parse(*config).value("model_type", std::string()),
                        .head_size = DecoderConfig::parse(file).head_size,
                        .dtype = dtype});
  } else {
    write_peft(adapter, output, {.dtype = dtype, .task_type = peft_task_of(models::is_encoder(graph))});
  }
  if (json)
    return print_json({{"output", output},
                       {"to", is_gguf ? "gguf" : "peft"},
                       {"adapter", chosen},
                       {"layers", adapter.updates.size()},
                       {"dtype", dtype_name(dtype)}});
  std::cout << output << "  the adapter " << chosen << " of " << count_text(adapter.updates.size(), "layer")
            << " for " << (is_gguf ? "llama.cpp (--lora)" : "peft") << ", " << dtype_name(dtype) << "\n";
}

}  // namespace crumb::cli
