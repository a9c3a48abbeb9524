#include "runtime/sentences/prompt.h"

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::runtime {
namespace {

constexpr const char* kFile = "config_sentence_transformers.json";

std::string names_of(const nlohmann::json& prompts) {
  std::string names;
  for (const auto& [name, prompt] : prompts.items()) names += (names.empty() ? "" : ", ") + quote_text(name);
  return names;
}

}  // namespace

std::string read_prompt(const ModelText& text, const PromptChoice& choice) {
  if (choice.text) return *choice.text;
  const auto found = text(kFile);
  if (!found) {
    if (choice.name) throw usage_error("the model has no " + std::string(kFile) + ", and so no prompts");
    return "";
  }
  const JsonFile config(kFile, *found);
  const auto by_default = config.string("default_prompt_name");
  const auto& name = choice.name ? choice.name : by_default;
  if (!name) return "";
  nlohmann::json prompts = nlohmann::json::object();
  if (config.has("prompts")) prompts = config.root().at("prompts");
  if (!prompts.is_object()) throw config.error("\"prompts\" must be an object of names and texts");
  const auto prompt = prompts.find(*name);
  if (prompt == prompts.end()) {
    const std::string has =
        prompts.empty() ? "the model has none" : "the model's prompts are " + names_of(prompts);
    if (choice.name) throw usage_error("there is no prompt " + quote_text(*name) + ": " + has);
    throw config.error("default_prompt_name is \"" + *name + "\", which is not among its prompts");
  }
  if (!prompt->is_string()) throw config.error("its prompt \"" + *name + "\" is no string");
  return prompt->get<std::string>();
}

}  // namespace crumb::runtime
