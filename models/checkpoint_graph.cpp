#include "models/checkpoint_graph.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/files/input_file.h"
#include "base/files/text.h"
#include "base/within.h"
#include "formats/checkpoint/bert_config.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/checkpoint/modernbert_config.h"
#include "formats/checkpoint/score_head.h"
#include "formats/checkpoint/sentence_modules.h"
#include "formats/checkpoint/text_config.h"
#include "formats/gguf/gguf.h"
#include "graph/packed/crumb_graph.h"
#include "models/bert.h"
#include "models/decoder.h"
#include "models/model_weights.h"
#include "models/modernbert.h"
#include "models/tied_head.h"

namespace crumb::models {
namespace {

using Build = graph::Graph (*)(ModelWeights& weights, const JsonFile& config);

/// Of a model_type; null where none is known. Decoders with modules of sentence-transformers embed sentences.
Build builder_of(std::string_view model_type, bool has_modules) {
  if (BertConfig::knows(model_type)) return build_bert;
  if (model_type == ModernBertConfig::kModelType) return build_modernbert;
  if (!DecoderConfig::knows(model_type)) return nullptr;
  if (has_modules) return build_decoder_as_encoder;
  return build_decoder;
}

std::string known() {
  return BertConfig::known() + ", " + ModernBertConfig::kModelType + ", " + DecoderConfig::known() +
         ", and the text of " + known_text_models();
}

/// What the text of a model of several networks is: ", with a text of 'ministral3'"; empty for others.
std::string text_of_part(const JsonFile& config) {
  const auto part = config.root().find("text_config");
  if (part == config.root().end() || !part->is_object()) return "";
  const auto type = part->find("model_type");
  if (type == part->end() || !type->is_string()) return "";
  return " with a text of " + quote_text(type->get<std::string>());
}

JsonFile config_of(const ModelWeights& weights) {
  const std::string path =
      SentenceModules::transformer_path([&](const std::string& file) { return weights.text(file); }) +
      "config.json";
  const auto text = weights.text(path);
  if (!text) {
    const std::string why = weights.why_unconfigured();
    throw Error("it has no " + path + ", so nothing says what network its tensors are" +
                (why.empty() ? "" : " (" + why + ")") + "; known are: " + known());
  }
  return {path, *text};
}

Build architecture_of(const JsonFile& config, bool has_modules) {
  const auto type = config.string("model_type");
  if (!type) throw config.error("it has no \"model_type\"; known are: " + known());
  const Build build = builder_of(*type, has_modules);
  if (!build) {
    throw config.error("found the architecture " + quote_text(*type) + text_of_part(config) +
                       ", which cannot be written as a graph; known are: " + known());
  }
  const auto head = ScoreHead::architecture_of(config);
  if (head && !has_modules && DecoderConfig::knows(*type))
    throw config.error(
        "found the architecture " + quote_text(*head) +
        ", a decoder with a head of classes, which cannot be written as a graph; encoders with "
        "such a head can");
  return build;
}

CheckpointGraph built(const WeightSource& source) {
  ModelWeights weights(source);
  graph::Graph graph = graph_of_config(weights);
  return {.graph = std::move(graph), .unused = weights.unused()};
}

bool is_gguf_file(const std::filesystem::path& path) {
  const auto file = InputFile::open(path);
  std::array<std::byte, 4> start{};
  return file.ok() && file.value().read(0, start).ok() && looks_like_gguf(start);
}

}  // namespace

bool is_checkpoint(const std::filesystem::path& path) {
  if (std::error_code none; std::filesystem::is_directory(path, none)) return true;
  if (is_gguf_file(path)) return true;
  if (!graph::is_crumb_file(path)) return false;
  const auto file = CrumbFile::open(path);
  return file.ok() &&
         !graph::holds_only_graph(file.value().header());  // of a damaged one, its reader says what is wrong
}

graph::Graph graph_of_config(ModelWeights& weights) {
  const JsonFile config = config_of(weights);
  const auto text = [&](const std::string& file) { return weights.text(file); };
  return architecture_of(config, SentenceModules::pools(text))(weights, config);
}

CheckpointGraph graph_of_checkpoint(const TensorSource& source, const std::string& name) {
  try {
    if (source.checkpoint()) expect_tied_head(*source.checkpoint());
    return built(*weights_of(source));
  } catch (const Error& error) {
    throw within_file(name, error);
  }
}

CheckpointGraph graph_on_checkpoint(std::shared_ptr<const TensorSource> source, const std::string& name) {
  try {
    if (source->checkpoint()) expect_tied_head(*source->checkpoint());
    return built(*weights_on(std::move(source)));
  } catch (const Error& error) {
    throw within_file(name, error);
  }
}

CheckpointGraph graph_of_weights(const WeightSource& source) {
  try {
    return built(source);
  } catch (const Error& error) {
    throw within_file(source.describe(), error);
  }
}

CheckpointGraph read_checkpoint_graph(const std::filesystem::path& path) {
  return graph_of_checkpoint(TensorSource::open(path), quote_text(path.string()));
}

}  // namespace crumb::models
