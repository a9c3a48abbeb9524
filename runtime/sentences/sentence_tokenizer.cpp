#include "runtime/sentences/sentence_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "formats/checkpoint/bert_config.h"

namespace crumb::runtime {
namespace {

/// The default prompt, or "".
std::string prompt_of(const ModelText& text) {
  const auto found = text("config_sentence_transformers.json");
  if (!found) return "";
  const JsonFile config("config_sentence_transformers.json", *found);
  const auto name = config.string("default_prompt_name");
  if (!name) return "";
  const auto prompts = config.root().find("prompts");
  if (prompts != config.root().end() && prompts->is_object()) {
    const auto prompt = prompts->find(*name);
    if (prompt != prompts->end() && prompt->is_string()) return prompt->get<std::string>();
  }
  throw config.error("default_prompt_name is \"" + *name + "\", which is not among its prompts");
}

}  // namespace

SentenceTokenizer SentenceTokenizer::load(const ModelText& text, const std::string& name) {
  const std::string path = SentenceModules::transformer_path(text);
  const auto config_text = text(path + "config.json");
  if (!config_text) throw Error(name + " has no " + path + "config.json");
  const auto config = BertConfig::parse(JsonFile(path + "config.json", *config_text));
  auto tokenizer =
      text::Tokenizer::load([&](std::string_view file) { return text(std::string(file)); }, path);
  tokenizer.limit_length(config.max_positions);
  if (static_cast<std::size_t>(tokenizer.largest_id()) >= config.vocab_size) {
    throw Error(name + ": the tokenizer's ids go up to " + std::to_string(tokenizer.largest_id()) +
                ", but config.json says that there are " + std::to_string(config.vocab_size) + " embeddings");
  }
  return {std::move(tokenizer), prompt_of(text)};
}

}  // namespace crumb::runtime
