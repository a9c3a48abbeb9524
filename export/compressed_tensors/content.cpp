#include "export/compressed_tensors/content.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/within.h"
#include "export/compressed_tensors/pack.h"
#include "formats/checkpoint/classify.h"
#include "formats/checkpoint/decoder_config.h"
#include "graph/packed/crumb_graph.h"
#include "models/configured_network.h"
#include "quant/packed/packed_stream.h"

namespace crumb::exporting::compressed_tensors {
namespace {

constexpr std::string_view kWeightEnd = ".weight";
constexpr const char* kConfig = "config.json";
constexpr std::size_t kMostNamed = 8;

/// Throws Error where a decoder's layers have sizes of their own, which its class in transformers cannot
/// have.
void refuse_lists_of_sizes(const nlohmann::json& config) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string() || !DecoderConfig::knows(type->get<std::string>())) return;
  for (const char* key : {"intermediate_size", "num_attention_heads", "num_key_value_heads"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_array())
      throw Error("config.json: " + quote_text(key) + " is a list, and transformers' " +
                  quote_text(type->get<std::string>()) + " takes one number for all layers");
  }
}

nlohmann::json read_config(const CrumbFile& file) {
  const PackedFile* const found = file.find_file(kConfig);
  if (found == nullptr)
    throw Error(quote_text(file.path().string()) +
                " holds no config.json, so that it is no model for transformers; expected what crumb "
                "quantize made of "
                "a Hugging Face folder");
  const BlobBytes bytes = file.load(found->blob, "file 'config.json'").take();
  nlohmann::json config = parse_bounded_json(bytes.bytes()).take("'config.json'");
  if (!config.is_object()) throw Error("'config.json': expected a JSON object");
  refuse_lists_of_sizes(config);
  return config;
}

float tensor_scale_of(const CrumbFile& file, const PackedTensor& tensor) {
  const std::optional<Blob>& blob = tensor.part(Part::kTensorScale);
  if (!blob) return 1;
  const BlobBytes bytes = file.load(*blob, part_text(tensor, Part::kTensorScale)).take();
  float scale = 1;
  std::memcpy(&scale, bytes.bytes().data(), sizeof scale);
  return scale;
}

/// "model.layers.0.mlp.up_proj" of its weight's name.
std::string layer_name(const std::string& tensor) {
  return tensor.substr(0, tensor.size() - kWeightEnd.size());
}

/// Whether the head is the table of embeddings. Configurations that do not say so have other defaults each.
bool is_tied(const CrumbFile& file, const nlohmann::json& config) {
  const auto tied = config.find("tie_word_embeddings");
  if (tied != config.end() && tied->is_boolean()) return tied->get<bool>();
  return file.find("lm_head.weight") == nullptr;
}

[[noreturn]] void refuse_tensors(const std::vector<std::string>& refused) {
  std::string text = count_text(refused.size(), "tensor") + (refused.size() == 1 ? " has" : " have") +
                     " no form in compressed-tensors: ";
  for (std::size_t i = 0; i < refused.size() && i < kMostNamed; ++i) text += (i > 0 ? ". " : "") + refused[i];
  if (refused.size() > kMostNamed) text += ". And " + std::to_string(refused.size() - kMostNamed) + " more";
  throw Error(text);
}

}  // namespace

Content::Content(const CrumbFile& file, bool allow_approximate) : file_(file) {
  config_ = read_config(file).dump();
  plan_tensors(allow_approximate);
  for (const PackedFile& one : file.header().files)
    if (one.path != kCrumbGraphFile) files_.push_back(one.path);
  config_ = make_config();
}

void Content::plan_tensors(bool allow_approximate) {
  const nlohmann::json config = nlohmann::json::parse(config_);
  const bool tied = is_tied(file_, config);
  std::vector<std::string> refused, widened;
  for (const PackedTensor& tensor : file_.header().tensors) {
    if (tied && tensor.name == "lm_head.weight") {
      notes_.push_back(models::note_of_unused_head(tensor.name));
      continue;
    }
    const bool is_matrix = tensor.shape.size() == 2 && tensor.name.ends_with(kWeightEnd);
    const TensorRole role = classify_tensor(tensor.name, tensor.dtype, tensor.shape, &config).role;
    const bool is_table = role == TensorRole::kEmbedding;
    const bool is_module =
        tensor.name.find('/') != std::string::npos;  // of sentence-transformers, which reads floats
    if (!tensor.encoding || (is_table && tied) || is_module) {
      if (tensor.encoding && !is_module) widened.push_back(tensor.name);
      if (is_matrix && !is_table) ignored_.push_back(layer_name(tensor.name));
      plain_.push_back(&tensor);
      continue;
    }
    const std::string subject = quote_text(tensor.name) + " (" + tensor.spec + "): ";
    if (!is_matrix) {
      refused.push_back(subject +
                        "it is no matrix of a linear layer; the nearest that has a form is to keep it");
      continue;
    }
    const float scale = tensor_scale_of(file_, tensor);
    Result<StoredForm> form = stored_form(tensor, scale, is_table, allow_approximate);
    if (!form.ok()) {
      refused.push_back(subject + form.failure().message);
      continue;
    }
    is_approximate_ = is_approximate_ || form.value().is_approximate;
    layers_.push_back({&tensor, std::move(form.value()), scale});
  }
  if (!refused.empty()) refuse_tensors(refused);
  if (layers_.empty())
    throw Error("nothing in it is quantized in a way that compressed-tensors has; --to hf writes floats");
  for (const Layer& layer : layers_) add_layer(layer);
  for (const PackedTensor* tensor : plain_)
    add(tensor->name, tensor->encoding ? DType::kF32 : tensor->dtype, tensor->shape, {.tensor = tensor});
  for (const std::string& name : widened)
    notes_.push_back(quote_text(name) +
                     " is written in float32: the head shares it, and compressed-tensors has no "
                     "quantized tables that are shared");
  if (std::ranges::any_of(layers_, [](const Layer& layer) {
        return layer.form.scheme.is_float && layer.form.scheme.format != "float-quantized";
      }))
    notes_.emplace_back(
        "compressed-tensors computes MX and NVFP4 weights in bfloat16, so that the configuration says "
        "bfloat16: transformers rounds the other tensors to it");
}

void Content::add(const std::string& name, DType dtype, std::vector<std::uint64_t> shape, Source source) {
  if (!sources_.emplace(name, std::move(source)).second)
    throw Error("it holds a tensor " + quote_text(name) +
                ", which compressed-tensors takes for a part of a layer");
  tensors_.push_back({name, dtype, std::move(shape)});
}

void Content::add_layer(const Layer& layer) {
  const PackedTensor& tensor = *layer.tensor;
  const Scheme& scheme = layer.form.scheme;
  const EncodedLayout layout = encoded_layout(*tensor.encoding, tensor.shape).take();
  const std::uint64_t rows = layout.matrix.rows, cols = layout.matrix.cols;
  const std::string prefix = layer_name(tensor.name) + ".";
  const auto part = [&](const std::string& name, DType dtype, std::vector<std::uint64_t> shape) {
    add(prefix + name, dtype, std::move(shape), {.tensor = &tensor, .layer = &layer, .part = name});
  };
  std::vector<std::uint64_t> scales = {layout.block_rows, layout.blocks_per_row};
  if (scheme.strategy == "tensor") scales = {1};
  const bool is_nv = scheme.format == "nvfp4-pack-quantized", is_mx = scheme.format.starts_with("mxfp");
  if (scheme.is_packed_integer()) {
    part("weight_packed", DType::kI32, {rows, code_row_bytes(scheme, cols) / 4});
    part("weight_shape", DType::kI64, {2});
  } else if (scheme.is_plain_integer()) {
    part("weight", DType::kI8, {rows, cols});
  } else if (scheme.bits == 8) {
    part("weight", DType::kF8E4M3, {rows, cols});
  } else {
    part("weight_packed", DType::kU8, {rows, code_row_bytes(scheme, cols)});
  }
  part("weight_scale", is_mx ? DType::kU8 : is_nv ? DType::kF8E4M3 : DType::kF32, scales);
  if (is_nv) part("weight_global_scale", DType::kF32, {1});
  if (!scheme.symmetric) part("weight_zero_point", DType::kI8, scales);
}

std::vector<TensorDescription> Content::tensors() const { return tensors_; }

const LoadedTensor& Content::loaded(const PackedTensor& tensor) const {
  if (open_ != &tensor) {
    opened_.reset();
    open_ = nullptr;
    opened_.emplace(LoadedTensor::load(file_, tensor).take(quote_text(file_.path().string())));
    open_ = &tensor;
  }
  return *opened_;
}

void Content::read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                          const Sink& sink) const {
  const Source& source = sources_.find(name)->second;
  const PackedTensor& tensor = *source.tensor;
  if (source.layer == nullptr) {
    if (tensor.encoding) {
      const std::unique_ptr<ValueStream> stream = open_packed_stream(file_, tensor, scratch, threads);
      for (auto x = stream->next(kStreamPiece); !x.empty(); x = stream->next(kStreamPiece))
        sink(std::as_bytes(x));
      return;
    }
    file_
        .read_slices(*tensor.part(Part::kData), part_text(tensor, Part::kData),
                     [&](std::span<const std::byte> slice) {
                       sink(slice);
                       return Status();
                     })
        .take(quote_text(file_.path().string()));
    return;
  }
  const Layer& layer = *source.layer;
  if (source.part == "weight_shape") {
    const std::array<std::uint64_t, 2> shape = {tensor.shape[0], tensor.shape[1]};
    return sink(std::as_bytes(std::span(shape)));
  }
  if (source.part == "weight_global_scale") {
    const float global = 1.0F / layer.tensor_scale;
    return sink(std::as_bytes(std::span(&global, 1)));
  }
  const QuantizedView& view = loaded(tensor).view();
  try {
    if (source.part == "weight_scale") {
      write_scales(view, layer.form, sink);
    } else if (source.part == "weight_zero_point") {
      write_zero_points(view, layer.form, sink);
    } else {
      write_codes(view, layer.form, threads, sink);
    }
  } catch (const Error& error) {
    throw within("tensor " + quote_text(tensor.name), error);
  }
}

std::string Content::make_config() const {
  nlohmann::json config = nlohmann::json::parse(config_);
  std::vector<std::pair<const Scheme*, std::vector<std::string>>> groups;
  bool is_bfloat = false;
  for (const Layer& layer : layers_) {
    const Scheme& scheme = layer.form.scheme;
    is_bfloat = is_bfloat || (scheme.is_float && scheme.format != "float-quantized");
    auto found = std::ranges::find_if(groups, [&](const auto& group) { return *group.first == scheme; });
    if (found == groups.end()) found = groups.insert(groups.end(), {&scheme, {}});
    found->second.push_back(layer_name(layer.tensor->name));
  }
  nlohmann::json config_groups = nlohmann::json::object();
  std::string format;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    config_groups["group_" + std::to_string(i)] = config_group(*groups[i].first, groups[i].second);
    const std::string& own = groups[i].first->format;
    format = format.empty() || format == own ? own : "mixed-precision";
  }
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"}, {"format", format},
      {"quantization_status", "compressed"},  {"ignore", ignored_},
      {"kv_cache_scheme", nullptr},           {"config_groups", std::move(config_groups)}};
  config.erase("dtype");
  config["torch_dtype"] = is_bfloat ? "bfloat16" : "float32";
  return config.dump(2) + "\n";
}

void Content::read_file(const std::string& path, const Sink& sink) const {
  if (path == kConfig) return sink(std::as_bytes(std::span(config_)));
  file_
      .read_slices(file_.find_file(path)->blob, "file " + quote_text(path),
                   [&](std::span<const std::byte> slice) {
                     sink(slice);
                     return Status();
                   })
      .take(quote_text(file_.path().string()));
}

}  // namespace crumb::exporting::compressed_tensors
