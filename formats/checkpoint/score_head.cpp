#include "formats/checkpoint/score_head.h"

#include <array>
#include <utility>

namespace crumb {
namespace {

constexpr std::array<std::pair<std::string_view, ScoreFunction>, 4> kFunctions = {
    {{"Identity", ScoreFunction::kIdentity},
     {"Sigmoid", ScoreFunction::kSigmoid},
     {"Tanh", ScoreFunction::kTanh},
     {"ReLU", ScoreFunction::kRelu}}};

/// Of a class's path, "torch.nn.modules.activation.Sigmoid". Nothing for classes that are not PyTorch's, for
/// which sentence-transformers takes the usual function.
std::optional<ScoreFunction> function_named(const JsonFile& file, const std::string& path) {
  if (!path.starts_with("torch.")) return std::nullopt;
  const std::string type = path.substr(path.rfind('.') + 1);
  for (const auto& [name, function] : kFunctions)
    if (type == name) return function;
  throw file.error("its function of scores is " + path +
                   "; supported are Identity, Sigmoid, Tanh and ReLU of torch.nn");
}

std::optional<ScoreFunction> function_of(const JsonFile& config, const ModelText& text) {
  constexpr const char* kOwn = "config_sentence_transformers.json";
  if (const auto found = text(kOwn)) {
    const JsonFile file(kOwn, *found);
    const auto path = file.string("activation_fn");
    const auto named = path ? function_named(file, *path) : std::nullopt;
    if (named) return named;
  }
  const auto inner = config.root().find("sentence_transformers");
  if (inner != config.root().end() && inner->is_object()) {
    const auto path = inner->find("activation_fn");
    if (path != inner->end() && path->is_string()) return function_named(config, path->get<std::string>());
  }
  const auto path = config.string("sbert_ce_default_activation_function");
  return path ? function_named(config, *path) : std::nullopt;
}

std::size_t labels_of(const JsonFile& config) {
  if (!config.has("id2label")) return config.count("num_labels", 1).value_or(2);
  const nlohmann::json& labels = config.root().at("id2label");
  if (!labels.is_object() || labels.empty())
    throw config.error("\"id2label\" must be an object of ids and labels");
  return labels.size();
}

}  // namespace

std::optional<std::string> ScoreHead::architecture_of(const JsonFile& config) {
  const auto names = config.root().find("architectures");
  if (names == config.root().end() || !names->is_array() || names->empty()) return std::nullopt;
  const nlohmann::json& first = names->front();
  if (!first.is_string() || !first.get_ref<const std::string&>().ends_with("ForSequenceClassification"))
    return std::nullopt;
  return first.get<std::string>();
}

std::optional<ScoreHead> ScoreHead::read(const JsonFile& config, const ModelText& text) {
  if (!architecture_of(config) || SentenceModules::pools(text)) return std::nullopt;
  ScoreHead head;
  head.labels = labels_of(config);
  const ScoreFunction usual = head.labels == 1 ? ScoreFunction::kSigmoid : ScoreFunction::kIdentity;
  head.function = function_of(config, text).value_or(usual);
  return head;
}

}  // namespace crumb
